package protocol

import "encoding/json"

// Column is one of the job's own report columns. Pointer is a JSON Pointer
// into the result.
type Column struct {
	Name      string      `json:"name"`
	Pointer   string      `json:"pointer"`
	Title     string      `json:"title"`
	TitleZh   string      `json:"titleZh,omitempty"`
	Unit      string      `json:"unit,omitempty"`
	UnitZh    string      `json:"unitZh,omitempty"` // absent: Unit stands in Chinese, too
	Type      ColumnType  `json:"type,omitempty"`   // absent: anything, and no total
	Aggregate []Aggregate `json:"aggregate,omitempty"`
}

// ColumnType says what the values of a column are.
type ColumnType string

// The types of columns. A value of another form is of the wrong type.
const (
	ColumnText     ColumnType = "text"     // a string
	ColumnInteger  ColumnType = "integer"  // a number without a fraction, 1.0 too
	ColumnNumber   ColumnType = "number"   // any number
	ColumnBool     ColumnType = "bool"     // true or false
	ColumnDate     ColumnType = "date"     // a string such as 2026-09-17
	ColumnTime     ColumnType = "time"     // a string by RFC 3339, with its offset
	ColumnBytes    ColumnType = "bytes"    // an integer of at least 0, which counts bytes
	ColumnDuration ColumnType = "duration" // a number of the column's unit: ms, s, min or h
)

// ColumnTypes are all types.
func ColumnTypes() []ColumnType {
	return []ColumnType{ColumnText, ColumnInteger, ColumnNumber, ColumnBool, ColumnDate, ColumnTime, ColumnBytes, ColumnDuration}
}

// DurationUnits are the units of a column of durations.
func DurationUnits() []string { return []string{"ms", "s", "min", "h"} }

// Numeric reports whether the values are numbers.
func (t ColumnType) Numeric() bool {
	return t == ColumnInteger || t == ColumnNumber || t == ColumnBytes || t == ColumnDuration
}

// Aggregate is something that the values of a column amount to.
type Aggregate string

// The aggregates.
const (
	AggregateSum       Aggregate = "sum"
	AggregateMean      Aggregate = "mean"
	AggregateMin       Aggregate = "min"
	AggregateMax       Aggregate = "max"
	AggregateP50       Aggregate = "p50" // the median, by nearest rank
	AggregateP95       Aggregate = "p95"
	AggregateDistinct  Aggregate = "distinct"  // how many different values
	AggregateTop       Aggregate = "top"       // numbers: the stores with the largest; else the most frequent values
	AggregateCount     Aggregate = "count"     // how many stores have each value
	AggregateHistogram Aggregate = "histogram" // how many stores have a value from here to there
)

// Aggregates are those that values of the type can have.
func (t ColumnType) Aggregates() []Aggregate {
	switch t {
	case ColumnInteger, ColumnNumber, ColumnBytes, ColumnDuration:
		return []Aggregate{AggregateSum, AggregateMean, AggregateMin, AggregateMax, AggregateP50, AggregateP95, AggregateDistinct,
			AggregateTop, AggregateCount, AggregateHistogram}
	case ColumnText:
		return []Aggregate{AggregateDistinct, AggregateTop, AggregateCount}
	case ColumnBool:
		return []Aggregate{AggregateCount}
	case ColumnDate, ColumnTime:
		return []Aggregate{AggregateMin, AggregateMax, AggregateDistinct, AggregateTop, AggregateCount}
	}
	return nil
}

// Total is what the values of one column amount to, at the Stores of the Of targets that
// have one. What the column does not ask for is absent, and so is everything but the counts
// when no store has a value. Values stand as in JSON: numbers exactly, to 12 decimals.
type Total struct {
	Column       string          `json:"column"`       // its name
	Stores       int             `json:"stores"`       // with a value of the column's type
	Of           int             `json:"of"`           // targets
	WrongType    int             `json:"wrongType"`    // stores with a value of another type, in no total
	WrongTypeIDs []string        `json:"wrongTypeIds"` // the first 100 of them
	Sum          json.RawMessage `json:"sum,omitempty"`
	Mean         json.RawMessage `json:"mean,omitempty"` // to 6 decimals
	Min          json.RawMessage `json:"min,omitempty"`
	Max          json.RawMessage `json:"max,omitempty"`
	P50          json.RawMessage `json:"p50,omitempty"`
	P95          json.RawMessage `json:"p95,omitempty"`
	Distinct     int             `json:"distinct,omitempty"`
	Largest      []StoreValue    `json:"largest,omitempty"`     // the largest first, 10 at most
	Values       []ValueCount    `json:"values,omitempty"`      // the most frequent first, 10 of top and 50 of count at most
	OtherValues  int             `json:"otherValues,omitempty"` // different values beyond Values
	OtherStores  int             `json:"otherStores,omitempty"` // that have one of them
	Histogram    []Bin           `json:"histogram,omitempty"`   // without a gap
	TooVaried    bool            `json:"tooVaried,omitempty"`   // more different text than is kept: no Distinct and no Values
}

// StoreValue is a store and its value.
type StoreValue struct {
	StoreID string          `json:"storeId"`
	Value   json.RawMessage `json:"value"`
}

// ValueCount is a value and how many stores have it.
type ValueCount struct {
	Value  json.RawMessage `json:"value"`
	Stores int             `json:"stores"`
}

// Bin is how many stores have a value of at least From and less than To.
type Bin struct {
	From   json.RawMessage `json:"from"`
	To     json.RawMessage `json:"to"`
	Stores int             `json:"stores"`
}
