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

// value is a value of the type of its column.
type value struct {
	key string   // the same for the same value, however it is spelt
	n   *big.Int // of numbers: in units of the last decimal; never changed
}

func (v value) less(w value) bool { return v.compare(w) < 0 }

func (v value) compare(w value) int {
	if v.n != nil && w.n != nil {
		return v.n.Cmp(w.n)
	}
	return cmp.Compare(v.key, w.key)
}

// read is false for a value of another type.
func read(t protocol.ColumnType, raw json.RawMessage) (value, bool) {
	text, quoted := line.Text(raw)
	if t.Numeric() {
		n, whole, ok := number(text)
		ok = ok && !quoted && (whole || t == protocol.ColumnNumber || t == protocol.ColumnDuration) && (t != protocol.ColumnBytes || n.Sign() >= 0)
		if !ok {
			return value{}, false
		}
		return value{decimal(n), n}, true
	}
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

// number reads a JSON number, rounded to the decimals that count. It is not ok for what is
// none, and for one with more digits before the point.
func number(literal string) (n *big.Int, whole, ok bool) {
	if len(literal) <= digits {
		if short, err := strconv.ParseInt(literal, 10, 64); err == nil {
			return new(big.Int).Mul(big.NewInt(short), units), true, true
		}
	}
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
