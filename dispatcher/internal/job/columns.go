package job

import (
	"fmt"
	"slices"
	"strings"

	"muster/internal/protocol"
)

func (l *loader) columns(docs []column) []protocol.Column {
	columns, names := make([]protocol.Column, 0, len(docs)), map[string]bool{}
	for i, doc := range docs {
		at := fmt.Sprintf("$.columns[%d].", i)
		l.require(at+"name", doc.Name)
		l.require(at+"title", doc.Title)
		folded := strings.ToLower(doc.Name)
		l.check(!names[folded], at+"name", "%s stands twice", doc.Name)
		names[folded] = true
		l.checkType(at, doc)
		if doc.Pointer == nil {
			l.check(false, at+"pointer", "is missing")
			continue
		}
		if _, err := parsePointer(*doc.Pointer); err != nil {
			l.check(false, at+"pointer", "%v", err)
		}
		columns = append(columns, protocol.Column{Name: doc.Name, Pointer: *doc.Pointer, Title: doc.Title, TitleZh: doc.TitleZh,
			Unit: doc.Unit, UnitZh: doc.UnitZh, Type: doc.Type, Aggregate: doc.Aggregate})
	}
	return columns
}

// checkType holds a column's unit and aggregates to its type.
func (l *loader) checkType(at string, doc column) {
	l.check(doc.UnitZh == "" || doc.Unit != "", at+"unit_zh", "needs unit beside it")
	if doc.Type == "" {
		l.check(len(doc.Aggregate) == 0, at+"aggregate", "needs type beside it: one of %s", listed(protocol.ColumnTypes()))
		return
	}
	l.check(slices.Contains(protocol.ColumnTypes(), doc.Type), at+"type", "is %q, must be one of %s", doc.Type, listed(protocol.ColumnTypes()))
	switch doc.Type {
	case protocol.ColumnDuration:
		if doc.Unit == "" {
			l.check(false, at+"type", "duration needs unit beside it: one of %s", listed(protocol.DurationUnits()))
		}
		l.check(slices.Contains(protocol.DurationUnits(), doc.Unit), at+"unit", "is %q, must be one of %s, as the type is duration", doc.Unit, listed(protocol.DurationUnits()))
	case protocol.ColumnBytes, protocol.ColumnText, protocol.ColumnBool, protocol.ColumnDate, protocol.ColumnTime:
		l.check(doc.Unit == "", at+"unit", "must be left out, as the type is %s", doc.Type)
	case protocol.ColumnInteger, protocol.ColumnNumber: // any unit, or none
	}
	for i, aggregate := range doc.Aggregate {
		l.check(slices.Contains(doc.Type.Aggregates(), aggregate), fmt.Sprintf("%saggregate[%d]", at, i),
			"is %q, must be one of %s, as the type is %s", aggregate, listed(doc.Type.Aggregates()), doc.Type)
		l.check(!slices.Contains(doc.Aggregate[:i], aggregate), fmt.Sprintf("%saggregate[%d]", at, i), "%s stands twice", aggregate)
	}
	both := slices.Contains(doc.Aggregate, protocol.AggregateTop) && slices.Contains(doc.Aggregate, protocol.AggregateCount)
	l.check(!both || doc.Type.Numeric(), at+"aggregate", "has top and count; count alone lists the most frequent values, too")
}

func listed[T ~string](words []T) string {
	texts := make([]string, 0, len(words))
	for _, word := range words {
		texts = append(texts, string(word))
	}
	return strings.Join(texts, ", ")
}
