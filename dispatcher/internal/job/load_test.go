package job_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"muster/dispatcher/internal/job"
	"muster/internal/protocol"
)

const openSchema = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`

const good = `name: count_stock
version: 3
title: Count the stock
input_schema: in.schema.json
output_schema: out.schema.json
`

func builtIn() fstest.MapFS {
	return fstest.MapFS{"in.schema.json": {Data: []byte(openSchema)}, "out.schema.json": {Data: []byte(openSchema)}}
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLoadTakesDefaultsForWhatIsAbsent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", "\xef\xbb\xbf"+strings.ReplaceAll(good, "\n", "\r\n"))
	registry, err := job.Load(dir, os.DirFS(dir), builtIn())
	if err != nil {
		t.Fatal(err)
	}
	spec, ok := registry.Get("count_stock")
	want := job.Policy{Attempts: 2, RunTimeout: time.Minute, Lease: 45 * time.Second, Barrier: 2 * time.Minute, Makeup: 24 * time.Hour,
		Late: job.AcceptAndRevise, RetryFirst: 2 * time.Second, RetryMax: 30 * time.Second, Quorum: 0.5, Backlog: job.BacklogNewest}
	if !ok || spec.Version != 3 || spec.Policy != want || spec.Policy != job.DefaultPolicy() || len(spec.Columns) != 0 {
		t.Errorf("got %+v, %v", spec, ok)
	}
	if _, ok := registry.Get("Count_stock"); ok {
		t.Error("names must be compared exactly")
	}
}

func TestLoadTakesEverySetting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "b.yaml", good+`title_zh: 盘点库存
policy:
  attempts: 4
  run_timeout: 90s
  lease: 30s
  barrier: 5m
  makeup: 0s
  late: record_only
  backlog: all
  retry_interrupted: true
  retry_first: 500ms
  retry_max: 1m
  max_running: 10
  grant_rate: 2.5
  grant_burst: 5
  quorum: 0.8
  priority: -3
columns:
  - name: lines
    pointer: /totals/lines
    title: Lines
    title_zh: 行数
    unit: lines
    unit_zh: 行
    type: integer
    aggregate: [sum, top, count]
  - {name: whole, pointer: "", title: Everything}
`)
	write(t, dir, "a.yaml", strings.Replace(good, "count_stock", "another", 1))
	write(t, dir, "in.schema.json", strings.Replace(openSchema, "object", "array", 1))
	registry, err := job.Load(dir, os.DirFS(dir), builtIn())
	if err != nil {
		t.Fatal(err)
	}
	spec, _ := registry.Get("count_stock")
	want := job.Policy{Attempts: 4, RunTimeout: 90 * time.Second, Lease: 30 * time.Second, Barrier: 5 * time.Minute, Late: job.RecordOnly,
		RetryInterrupted: true, RetryFirst: 500 * time.Millisecond, RetryMax: time.Minute, MaxRunning: 10, GrantRate: 2.5, GrantBurst: 5,
		Quorum: 0.8, Priority: -3, Backlog: job.BacklogAll}
	if spec.Policy != want {
		t.Errorf("got  %+v\nwant %+v", spec.Policy, want)
	}
	if len(spec.Columns) != 2 || spec.Columns[0].Unit != "lines" || spec.Columns[0].UnitZh != "行" || spec.Columns[0].Type != protocol.ColumnInteger || len(spec.Columns[0].Aggregate) != 3 || spec.Columns[1].Pointer != "" {
		t.Errorf("columns: %+v", spec.Columns)
	}
	if err := spec.Input.Validate([]byte(`[]`)); err != nil {
		t.Errorf("the schema beside the file must win: %v", err)
	}
	if list := registry.List(); len(list) != 2 || list[0].Name != "another" {
		t.Errorf("list: %+v", list)
	}
}

func TestLoadRefusesWithFileLineAndKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":       {good + "titel: x\n", `j.yaml:6: unknown field "titel"`},
		"unknown policy":    {good + "policy:\n  atempts: 3\n", `j.yaml:7: unknown field "atempts"`},
		"unknown in column": {good + "columns:\n  - name: a\n    path: /a\n", `j.yaml:8: unknown field "path"`},
		"key twice":         {good + "version: 4\n", `j.yaml:6: mapping key "version" already defined at [2:1]`},
		"missing unit":      {good + "policy:\n  lease: 45\n", `j.yaml:7: policy.lease: must be a duration with its unit, such as 45s`},
		"missing unit, text": {good + "policy:\n  lease: \"45\"\n",
			`j.yaml:7: policy.lease: must be a duration with its unit, such as 45s`},
		"zero without unit":  {good + "policy:\n  makeup: \"0\"\n", `j.yaml:7: policy.makeup: must be a duration with its unit, such as 45s`},
		"Chinese unit":       {good + "policy:\n  barrier: 120秒\n", `j.yaml:7: policy.barrier: must be a duration with its unit, such as 45s`},
		"too short":          {good + "policy:\n  barrier: 10ms\n", `j.yaml:7: policy.barrier: is 10ms, must be 1s to 24h0m0s`},
		"too long":           {good + "policy:\n  barrier: 25h\n", `j.yaml:7: policy.barrier: is 25h0m0s, must be 1s to 24h0m0s`},
		"negative":           {good + "policy:\n  makeup: -1s\n", `j.yaml:7: policy.makeup: is -1s, must be 0s to 744h0m0s`},
		"input too small":    {good + "max_input_bytes: 1\n", `j.yaml:6: max_input_bytes: is 1, must be 2 to 262144`},
		"input too large":    {good + "max_input_bytes: 262145\n", `j.yaml:6: max_input_bytes: is 262145, must be 2 to 262144`},
		"no attempts":        {good + "policy:\n  attempts: 0\n", `j.yaml:7: policy.attempts: is 0, must be 1 to 10`},
		"attempts as text":   {good + "policy:\n  attempts: two\n", `j.yaml:7: policy.attempts: must be a whole number`},
		"attempts fraction":  {good + "policy:\n  attempts: 1.5\n", `j.yaml:7: policy.attempts: must be a whole number`},
		"quorum":             {good + "policy:\n\n  quorum: 50\n", `j.yaml:8: policy.quorum: is 50, must be 0 to 1`},
		"quorum NaN":         {good + "policy:\n  quorum: .nan\n", `j.yaml:7: policy.quorum: is NaN, must be 0 to 1`},
		"backlog":            {good + "policy:\n  backlog: some\n", `j.yaml:7: policy.backlog: is "some", must be newest or all`},
		"late":               {good + "policy:\n  late: maybe\n", `j.yaml:7: policy.late: is "maybe", must be accept_and_revise, record_only or reject`},
		"retry bounds":       {good + "policy:\n  retry_first: 10s\n  retry_max: 5s\n", `j.yaml:8: policy.retry_max: is 5s, must be 10s to 24h0m0s`},
		"rate without burst": {good + "policy:\n  grant_rate: 2\n", `j.yaml:7: policy.grant_rate: needs grant_burst of at least 1 beside it`},
		"yes for true":       {good + "policy:\n  retry_interrupted: yes\n", `j.yaml:7: policy.retry_interrupted: must be true or false`},
		"bad name":           {strings.Replace(good, "count_stock", "Count-Stock", 1), `j.yaml:1: name: must be lower case`},
		"number as name":     {strings.Replace(good, "count_stock", "7", 1), `j.yaml:1: name: must be a text`},
		"no name":            {strings.Replace(good, "name: count_stock\n", "", 1), `j.yaml: name: is missing`},
		"no version":         {strings.Replace(good, "version: 3\n", "", 1), `j.yaml: version: is 0, must be 1 to 9999`},
		"version 0":          {strings.Replace(good, "version: 3", "version: 0", 1), `j.yaml:2: version: is 0, must be 1 to 9999`},
		"no schema":          {strings.Replace(good, "output_schema: out.schema.json\n", "", 1), `j.yaml: output_schema: is missing`},
		"lost schema":        {strings.Replace(good, "out.schema", "gone.schema", 1), `j.yaml:5: output_schema: cannot read gone.schema.json`},
		"schema elsewhere":   {strings.Replace(good, "out.schema", "../out.schema", 1), `j.yaml:5: output_schema: must be a file name without a folder`},
		"bad schema":         {strings.Replace(good, "out.schema", "bad.schema", 1), `j.yaml:5: output_schema: cannot compile schema bad.schema.json: the schema: refers to itself`},
		"bad pointer":        {good + "columns:\n  - name: a\n    pointer: a/b\n    title: A\n", `j.yaml:8: columns[0].pointer: "a/b" must start with /`},
		"bad escape":         {good + "columns:\n  - name: a\n    pointer: /a~2\n    title: A\n", `j.yaml:8: columns[0].pointer: "/a~2" has a ~ that is neither ~0 nor ~1`},
		"no pointer":         {good + "columns:\n  - name: a\n    title: A\n", `j.yaml: columns[0].pointer: is missing`},
		"column twice":       {good + "columns:\n  - {name: a, pointer: /a, title: A}\n  - {name: A, pointer: /b, title: B}\n", `j.yaml:8: columns[1].name: A stands twice`},
		"total of what":      {good + "columns:\n  - {name: a, pointer: /a, title: A,\n     aggregate: [sum]}\n", `j.yaml:8: columns[0].aggregate: needs type beside it: one of text, integer, number, bool, date, time, bytes, duration`},
		"unknown type":       {good + "columns:\n  - {name: a, pointer: /a, title: A,\n     type: int}\n", `j.yaml:8: columns[0].type: is "int", must be one of text, integer, number, bool, date, time, bytes, duration`},
		"sum of text":        {good + "columns:\n  - {name: a, pointer: /a, title: A, type: text,\n     aggregate: [top, sum]}\n", `j.yaml:8: columns[0].aggregate[1]: is "sum", must be one of distinct, top, count, as the type is text`},
		"aggregate twice":    {good + "columns:\n  - {name: a, pointer: /a, title: A, type: text,\n     aggregate: [top, top]}\n", `j.yaml:8: columns[0].aggregate[1]: top stands twice`},
		"top and count":      {good + "columns:\n  - {name: a, pointer: /a, title: A, type: text,\n     aggregate: [top, count]}\n", `j.yaml:8: columns[0].aggregate: has top and count; count alone lists the most frequent values, too`},
		"bare duration":      {good + "columns:\n  - {name: a, pointer: /a, title: A,\n     type: duration}\n", `j.yaml:8: columns[0].type: duration needs unit beside it: one of ms, s, min, h`},
		"other duration":     {good + "columns:\n  - {name: a, pointer: /a, title: A, type: duration,\n     unit: days}\n", `j.yaml:8: columns[0].unit: is "days", must be one of ms, s, min, h, as the type is duration`},
		"bytes in MB":        {good + "columns:\n  - {name: a, pointer: /a, title: A, type: bytes,\n     unit: MB}\n", `j.yaml:8: columns[0].unit: must be left out, as the type is bytes`},
		"Chinese unit alone": {good + "columns:\n  - {name: a, pointer: /a, title: A,\n     unit_zh: 行}\n", `j.yaml:8: columns[0].unit_zh: needs unit beside it`},
		"no YAML":            {"name: [\n", `j.yaml:1: `},
		"a list":             {"- a\n", `j.yaml:1: `},
		"empty":              {"", `j.yaml: `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := write(t, dir, "j.yaml", c.text)
			write(t, dir, "bad.schema.json", `{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#"}`)
			_, err := job.Load(dir, os.DirFS(dir), builtIn())
			want := "cannot load job: " + strings.Replace(c.want, "j.yaml", file, 1)
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

func TestLoadRefusesTwoJobsOfOneName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, second := write(t, dir, "a.yaml", good), write(t, dir, "b.yaml", good)
	_, err := job.Load(dir, os.DirFS(dir), builtIn())
	if want := "cannot load job: " + second + ":1: name: count_stock stands in " + first + " already\n   1 | name: count_stock\n     |       ^"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := job.Load("nowhere", fstest.MapFS{}, builtIn()); err == nil {
		t.Error("an empty folder must be refused")
	}
}

// TestTheDigestIsOfAllThatAJobSays: whoever approved a run approved a job's
// file and its schemas.
func TestTheDigestIsOfAllThatAJobSays(t *testing.T) {
	t.Parallel()
	digest := func(file, input string, schemas fstest.MapFS) string {
		t.Helper()
		dir := t.TempDir()
		write(t, dir, "a.yaml", file)
		if input != "" {
			write(t, dir, "in.schema.json", input)
		}
		registry, err := job.Load(dir, os.DirFS(dir), schemas)
		if err != nil {
			t.Fatal(err)
		}
		spec, _ := registry.Get("count_stock")
		if spec.Approval != strings.Contains(file, "approval: true") {
			t.Errorf("approval is %v in %s", spec.Approval, file)
		}
		return spec.Digest
	}
	first := digest(good, "", builtIn())
	if len(first) != 64 || digest(good, "", builtIn()) != first || digest(good, openSchema, withoutInput(builtIn())) != first {
		t.Error("the same bytes have another digest")
	}
	other := builtIn()
	other["out.schema.json"] = &fstest.MapFile{Data: []byte(openSchema + "\n")}
	for name, got := range map[string]string{
		"the file":      digest(good+"approval: true\n", "", builtIn()),
		"a schema":      digest(good, strings.Replace(openSchema, "object", "array", 1), builtIn()),
		"a shared one":  digest(good, "", other),
		"a policy":      digest(good+"policy: {quorum: 0.7}\n", "", builtIn()),
		"approval: off": digest(good+"approval: false\n", "", builtIn()),
	} {
		if got == first {
			t.Errorf("%s changed and the digest did not", name)
		}
	}
}

// withoutInput leaves the output schema alone among the built-in ones.
func withoutInput(files fstest.MapFS) fstest.MapFS {
	delete(files, "in.schema.json")
	return files
}

func TestAnInputIsBoundedUnlessTheJobSaysMore(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 64 << 10, "max_input_bytes: 262144\n": 256 << 10} {
		dir := t.TempDir()
		write(t, dir, "j.yaml", good+text)
		registry, err := job.Load(dir, os.DirFS(dir), builtIn())
		if err != nil {
			t.Fatal(err)
		}
		if spec, _ := registry.Get("count_stock"); spec.MaxInputBytes != want {
			t.Errorf("%q: %d", text, spec.MaxInputBytes)
		}
	}
}
