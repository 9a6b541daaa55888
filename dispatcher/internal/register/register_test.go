package register_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"muster/dispatcher/internal/register"
	"muster/dispatcher/internal/store"
)

const header = "store_id,name,time_zone,labels\n"

func load(path string) ([]store.Place, error) {
	file, err := register.Read(path)
	if err != nil {
		return nil, err
	}
	return file.Places()
}

func TestTheShippedListLoads(t *testing.T) {
	t.Parallel()
	places, err := load("../../../configs/stores.csv")
	if err != nil {
		t.Fatal(err)
	}
	if len(places) < 20 {
		t.Errorf("%d stores", len(places))
	}
}

func TestIdsAndNamesStayText(t *testing.T) {
	t.Parallel()
	text := header + `007,"=1+1",Asia/Shanghai,
1E5,<script>alert(1)</script>,America/Los_Angeles,region=east
06-8108,"He said ""hi"", 店 🏪 ` + "\u202e" + `x",UTC,region=华东; format=mall ;
`
	want := []store.Place{
		{StoreID: "007", Name: "=1+1", TimeZone: "Asia/Shanghai", Labels: map[string]string{}},
		{StoreID: "1E5", Name: "<script>alert(1)</script>", TimeZone: "America/Los_Angeles", Labels: map[string]string{"region": "east"}},
		{StoreID: "06-8108", Name: "He said \"hi\", 店 🏪 \u202ex", TimeZone: "UTC", Labels: map[string]string{"region": "华东", "format": "mall"}},
	}
	for name, data := range map[string]string{
		"plain": text, "mark": "\ufeff" + text, "CRLF": strings.ReplaceAll(text, "\n", "\r\n"),
		"mark and CRLF": "\ufeff" + strings.ReplaceAll(text, "\n", "\r\n"), "no final newline": strings.TrimSuffix(text, "\n"),
	} {
		got, err := register.File{Name: "s.csv", Data: []byte(data)}.Places()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

func TestBadListsAreRefusedWithTheirLine(t *testing.T) {
	t.Parallel()
	const ok = "A1,One,Asia/Shanghai,\n"
	for name, c := range map[string]struct{ text, want string }{
		"empty":          {"", `s.csv: is empty`},
		"header alone":   {header, `s.csv: holds no store: write a line such as SH_0312,Nanjing Road,Asia/Shanghai,region=east below the header`},
		"other header":   {"id,name\n" + ok, `s.csv:1: the header is "id,name", must be "store_id,name,time_zone,labels"`},
		"neither":        {header + "A1,\xb5\xff,Asia/Shanghai,\n", `s.csv: is neither UTF-8 nor GBK; save it as "CSV UTF-8"`},
		"UTF-16":         {"\xff\xfes\x00", `s.csv: is UTF-16; save it as "CSV UTF-8"`},
		"GBK twin":       {header + "A1,\xb5\xea,Asia/Shanghai,\na1,\xb5\xea,Asia/Shanghai,\n", `s.csv:3: store_id "a1" differs only in case from "A1" in line 2`},
		"too few fields": {header + ok + "A2,Two\n", `s.csv:3: has 2 fields, must have 4`},
		"unquoted comma": {header + "A2,Two, again,Asia/Shanghai,\n", `s.csv:2: has 5 fields, must have 4`},
		"no id":          {header + ok + ",Two,Asia/Shanghai,\n", `s.csv:3: store_id "" must be`},
		"blank in id":    {header + " A1,One,Asia/Shanghai,\n", `s.csv:2: store_id " A1" must be`},
		"wildcard id":    {header + "#,One,Asia/Shanghai,\n", `s.csv:2: store_id "#" must be`},
		"long id":        {header + strings.Repeat("A", 64) + ",One,Asia/Shanghai,\n", `s.csv:2: store_id "AAA`},
		"id twice":       {header + ok + "\n" + ok, `s.csv:4: store_id "A1" stands in line 2 already`},
		"case twin":      {header + ok + "a1,Two,Asia/Shanghai,\n", `s.csv:3: store_id "a1" differs only in case from "A1" in line 2`},
		"no name":        {header + "A1, ,Asia/Shanghai,\n", `s.csv:2: name is empty`},
		"newline inside": {header + ok + "A2,\"Two\nlines\",Asia/Shanghai,\n", `s.csv:3: name "Two\nlines" holds a control character`},
		"no zone":        {header + "A1,One,,\n", `s.csv:2: time_zone "" must be an IANA name`},
		"local zone":     {header + "A1,One,Local,\n", `s.csv:2: time_zone "Local" must be an IANA name`},
		"unknown zone":   {header + "A1,One,Asia/Beijing,\n", `s.csv:2: time_zone "Asia/Beijing" is unknown`},
		"zone escapes":   {header + "A1,One,../../etc/passwd,\n", `s.csv:2: time_zone "../../etc/passwd" is unknown`},
		"label":          {header + "A1,One,UTC,region\n", `s.csv:2: label "region" must be key=value`},
		"label empty":    {header + "A1,One,UTC,region=\n", `s.csv:2: label region is empty`},
		"label twice":    {header + "A1,One,UTC,a=1;a=2\n", `s.csv:2: label "a" stands twice`},
		"label breaks":   {header + "A1,One,UTC,a=1=2\n", `s.csv:2: label a has the value "1=2"`},
		"open quote":     {header + "A1,\"One,UTC,\n", `s.csv:2: a field that begins with " has no end, or text behind it: end it with ", and write "" for each within`},
		"end far below":  {header + "A1,\"One,UTC,\n" + strings.Replace(ok, "A1", "A2", 1), `s.csv:2: a field that begins with " has no end`},
		"inner quote":    {header + "A1,One \"1\",UTC,\n", `s.csv:2: a " stands within a field that does not begin with one: write the field in quotes, and "" for each within`},
		"label's key":    {header + "A1,One,UTC,区=1\n", `s.csv:2: label "区=1" has the key "区", which must be 1 to 63 of A-Z a-z 0-9 . _ -`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := register.File{Name: "s.csv", Data: []byte(c.text)}.Places()
			if err == nil || !strings.HasPrefix(err.Error(), "cannot load stores: "+c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "list.csv")
	if err := os.WriteFile(file, []byte(header+"?,x,UTC,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := load(file)
	if err == nil || !strings.HasPrefix(err.Error(), "cannot load stores: "+file+":2: store_id") {
		t.Errorf("got %v", err)
	}
	if _, err := load(file + ".gone"); err == nil {
		t.Error("a missing file must be refused")
	}
}

func TestGBKIsReadAndWrittenAsUTF8(t *testing.T) {
	t.Parallel()
	got, err := parse("s.csv", []byte(header+"007,\xb5\xea,Asia/Shanghai,region=\xbb\xaa\xb6\xab;a=1\n"))
	want := []store.Place{{StoreID: "007", Name: "店", TimeZone: "Asia/Shanghai", Labels: map[string]string{"region": "华东", "a": "1"}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v", got, err)
	}
	text, err := register.Format(got)
	if err != nil || string(text) != header+"007,店,Asia/Shanghai,a=1;region=华东\n" {
		t.Errorf("got %q, %v", text, err)
	}
	if again, err := parse("s.csv", text); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("read again: %+v, %v", again, err)
	}
}

func parse(name string, data []byte) ([]store.Place, error) {
	return register.File{Name: name, Data: data}.Places()
}
