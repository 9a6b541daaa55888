package words

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"muster/internal/protocol"
)

// Fact is one thing that a column's values amount to: what it is, and its value as in
// JSON.
type Fact struct {
	About Pair
	Value json.RawMessage
	// Count: the value is a number of values, and not one of the column.
	Count bool
	// Mean: it has more decimals than anybody reads.
	Mean bool
}

// Facts are what a total says in single values.
func Facts(total *protocol.Total, column *protocol.Column) (list []Fact) {
	least, most := Of("最小", "least"), Of("最大", "most")
	if !column.Type.Numeric() {
		least, most = Of("最早", "earliest"), Of("最晚", "latest")
	}
	for _, f := range []Fact{
		{About: Of("合计", "sum"), Value: total.Sum}, {About: Of("平均", "mean"), Value: total.Mean, Mean: true},
		{About: least, Value: total.Min}, {About: Of("中位数", "median"), Value: total.P50},
		{About: Of("95 % 不超过", "95 % at most"), Value: total.P95}, {About: most, Value: total.Max},
	} {
		if f.Value != nil {
			list = append(list, f)
		}
	}
	if total.Distinct > 0 {
		list = append(list, Fact{About: Of("不同的值", "different values"), Value: json.RawMessage(strconv.Itoa(total.Distinct)), Count: true})
	}
	return list
}

// Coverage says of how many of all stores a total speaks.
func Coverage(total *protocol.Total) Pair {
	have, of := Count(total.Stores), Count(total.Of)
	return Of(fmt.Sprintf("%s / %s 家门店", have, of), fmt.Sprintf("%s of %s", have, Stores(total.Of)))
}

// ColumnTitle is Titled in which nothing acts.
func ColumnTitle(c *protocol.Column) Pair {
	title := Titled(c)
	return Of(Visible(title.Zh), Visible(title.En))
}

// Titled is a column's title with its unit, as they were written.
func Titled(c *protocol.Column) Pair {
	title, unit := Of(cmp.Or(c.TitleZh, c.Title), c.Title), Unit(c)
	if unit == (Pair{}) {
		return title
	}
	return Of(title.Zh+" ("+unit.Zh+")", title.En+" ("+unit.En+")")
}

// Unit is a column's unit, empty where it has none. What has no Chinese is English there.
func Unit(c *protocol.Column) Pair { return Of(cmp.Or(c.UnitZh, c.Unit), c.Unit) }

// Value shows a value of a column: numbers in groups of three digits and with their unit,
// bytes in a larger unit besides, true and false as yes and no.
func Value(raw json.RawMessage, c *protocol.Column) Pair {
	text := string(raw)
	switch {
	case c.Type == protocol.ColumnBytes:
		text = sized(Grouped(text), raw)
	case c.Type.Numeric():
		text, unit := Grouped(text), Unit(c)
		return Of(Visible(strings.TrimSpace(text+" "+unit.Zh)), Visible(strings.TrimSpace(text+" "+unit.En)))
	case c.Type == protocol.ColumnBool:
		return YesNo(text == "true")
	case c.Type == protocol.ColumnTime:
		text = strings.Replace(strings.Trim(text, `"`), "T", " ", 1)
	default:
		var plain string
		if json.Unmarshal(raw, &plain) == nil {
			text = plain
		}
	}
	return Of(Visible(text), Visible(text))
}

// sized adds to a number of bytes the largest unit (IEC 80000-13) of which there is one.
func sized(text string, raw json.RawMessage) string {
	const step = 1024
	size, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || size < step {
		return text + " B"
	}
	unit := ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		if size /= step; size < step {
			break
		}
	}
	return fmt.Sprintf("%s B (%.1f %s)", text, size, unit)
}

// Count is how many, in groups of three digits.
func Count(n int) string { return Grouped(strconv.Itoa(n)) }

// Stores counts stores in English.
func Stores(n int) string { return many(n, "store") }

// OtherValues says that so many other values stand at so many stores.
func OtherValues(values, stores int) Pair {
	return Of(fmt.Sprintf("另有 %s 个值，%s 家门店", Count(values), Count(stores)), many(values, "other value")+" at "+Stores(stores))
}

func many(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Count(n) + " " + thing + "s"
}

// Rounded is a decimal number of at least 1 with two decimals at most, and any other as
// it is.
func Rounded(number json.RawMessage) json.RawMessage {
	value, err := strconv.ParseFloat(string(number), 64)
	if _, fraction, _ := strings.Cut(string(number), "."); err != nil || len(fraction) <= 2 || math.Abs(value) < 1 {
		return number
	}
	return json.RawMessage(strconv.FormatFloat(math.Round(value*100)/100, 'f', -1, 64))
}

// Grouped parts the digits of a decimal number before the point into groups of three.
func Grouped(number string) string {
	const group = 3
	sign, rest := "", number
	if strings.HasPrefix(number, "-") {
		sign, rest = "-", number[1:]
	}
	whole, fraction, hasPoint := strings.Cut(rest, ".")
	var b strings.Builder
	for i := range len(whole) {
		if i > 0 && (len(whole)-i)%group == 0 {
			b.WriteByte(',')
		}
		b.WriteByte(whole[i])
	}
	if hasPoint {
		b.WriteString("." + fraction)
	}
	return sign + b.String()
}
