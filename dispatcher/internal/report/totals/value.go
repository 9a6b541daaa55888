package totals

import (
	"cmp"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"time"

	"muster/dispatcher/internal/report/line"
	"muster/internal/protocol"
)

const (
	// decimals is how many decimals of a number count.
	decimals = 12
	// digits bounds those before the point: a sum of 100,000 such numbers still fits a
	// JSON number of protocol.MaxLiteral characters.
	digits = 18
	// instant is a moment as a key: in UTC, so that keys are in the order of time.
	instant = "2006-01-02T15:04:05.000Z"
)

// units is how many units of the last decimal are 1.
var units = new(big.Int).Exp(big.NewInt(10), big.NewInt(decimals), nil) //nolint:gochecknoglobals // a constant

// value is a value of the type of its column. Nearly all numbers are whole and short; they
// go without the arithmetic that any number takes.
type value struct {
	key     string   // of what is no short number: the same for the same value, however it is spelt
	n       *big.Int // of other numbers: in units of the last decimal; never changed
	short   int64    // of a whole number of so many digits
	isShort bool
}

func (v value) numeric() bool { return v.isShort || v.n != nil }

// units is a number in units of the last decimal.
func (v value) units() *big.Int {
	if v.isShort {
		return new(big.Int).Mul(big.NewInt(v.short), units)
	}
	return v.n
}

func (v value) less(w value) bool { return v.compare(w) < 0 }

func (v value) compare(w value) int {
	switch {
	case v.isShort && w.isShort:
		return cmp.Compare(v.short, w.short)
	case v.numeric() && w.numeric():
		return v.units().Cmp(w.units())
	}
	return cmp.Compare(v.key, w.key)
}

// said is a value that needs no quotes.
func (v value) said() string {
	if v.isShort {
		return strconv.FormatInt(v.short, 10)
	}
	return v.key
}

// short is a whole number in the digits of JSON, and false for any other value, and for a
// number whose digits may be too many.
func short(raw json.RawMessage) (n int64, ok bool) {
	from := 0
	if len(raw) > 0 && raw[0] == '-' {
		from = 1
	}
	if len(raw) == from || len(raw) > digits {
		return 0, false
	}
	for _, c := range raw[from:] {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	if from == 1 {
		n = -n
	}
	return n, true
}

// read is false for a value of another type.
func read(t protocol.ColumnType, raw json.RawMessage) (value, bool) {
	if t.Numeric() {
		return readNumber(t, raw)
	}
	text, quoted := line.Text(raw)
	switch t {
	case protocol.ColumnText:
		return value{key: text}, quoted
	case protocol.ColumnBool:
		return value{key: text}, !quoted && (text == "true" || text == "false")
	case protocol.ColumnDate:
		_, err := time.Parse(time.DateOnly, text)
		return value{key: text}, quoted && err == nil
	case protocol.ColumnTime:
		at, err := time.Parse(time.RFC3339, text)
		return value{key: at.UTC().Format(instant)}, quoted && err == nil
	case protocol.ColumnInteger, protocol.ColumnNumber, protocol.ColumnBytes, protocol.ColumnDuration: // above
	}
	return value{}, false
}

func readNumber(t protocol.ColumnType, raw json.RawMessage) (value, bool) {
	n, ok := short(raw)
	if ok {
		return value{short: n, isShort: true}, t != protocol.ColumnBytes || n >= 0
	}
	text, quoted := line.Text(raw)
	exact, whole, ok := number(text)
	ok = ok && !quoted && (whole || t == protocol.ColumnNumber || t == protocol.ColumnDuration) && (t != protocol.ColumnBytes || exact.Sign() >= 0)
	if !ok {
		return value{}, false
	}
	if n, rest := new(big.Int).QuoRem(exact, units, new(big.Int)); rest.Sign() == 0 { // 1.0 is 1
		return value{short: n.Int64(), isShort: true}, true
	}
	return value{key: decimal(exact), n: exact}, true
}

// number reads a JSON number, rounded to the decimals that count. It is not ok for what is
// none, and for one with more digits before the point.
func number(literal string) (n *big.Int, whole, ok bool) {
	size, err := strconv.ParseFloat(literal, 64)
	if err != nil || len(literal) > protocol.MaxLiteral || literal[0] != '-' && (literal[0] < '0' || literal[0] > '9') {
		return nil, false, false
	}
	if size == 0 { // also what is smaller than a number can be: its exponent may be anything
		return new(big.Int), strings.Trim(literal, "-0.") == "" || !strings.ContainsAny(literal, "123456789"), true
	}
	exact, ok := new(big.Rat).SetString(literal)
	if !ok {
		return nil, false, false
	}
	n = rounded(new(big.Int).Mul(exact.Num(), units), exact.Denom())
	return n, exact.IsInt(), new(big.Int).Quo(n, units).CmpAbs(tooLarge) < 0
}

var tooLarge = new(big.Int).Exp(big.NewInt(10), big.NewInt(digits), nil) //nolint:gochecknoglobals // a constant

// rounded is n/d for d > 0, halves away from 0.
func rounded(n, d *big.Int) *big.Int {
	twice := new(big.Int).Lsh(new(big.Int).Abs(n), 1)
	twice.Add(twice, d).Quo(twice, new(big.Int).Lsh(d, 1))
	if n.Sign() < 0 {
		twice.Neg(twice)
	}
	return twice
}

// decimal writes a number that is counted in units of the last decimal.
func decimal(n *big.Int) string {
	whole, rest := new(big.Int).QuoRem(new(big.Int).Abs(n), units, new(big.Int))
	text := whole.String()
	if rest.Sign() != 0 {
		fraction := rest.String()
		text += "." + strings.TrimRight(strings.Repeat("0", decimals-len(fraction))+fraction, "0")
	}
	if n.Sign() < 0 {
		return "-" + text
	}
	return text
}
