// Package selector reads label expressions, which say what stores are meant by
// their labels: in a request, and in what a person may ask for.
//
// It is pure and knows no register.
package selector

import (
	"fmt"
	"strings"

	"muster/internal/protocol"
)

// maxExpression bounds a label expression, in bytes.
const maxExpression = 1000

// term is one comparison of a label expression.
type term struct {
	key, value string
	not        bool
}

// Expression is a parsed label expression. The zero value matches everything.
type Expression struct{ terms []term }

// Matches reports whether every term holds. A store without the label has
// another value than any, so != holds for it.
func (e Expression) Matches(labels map[string]string) bool {
	for _, t := range e.terms {
		value, has := labels[t.key]
		if (has && value == t.value) == t.not {
			return false
		}
	}
	return true
}

// Parse takes "key=value,other!=value" apart; a comma means and. It fails with a
// *protocol.Error, SCHEMA at /stores/labels, that says which character is wrong.
func Parse(expression string) (Expression, error) {
	if len(expression) > maxExpression {
		return Expression{}, badExpression(expression, maxExpression, "it is longer than 1000 bytes", "超过 1000 字节")
	}
	var terms []term
	at := 0
	for part := range strings.SplitSeq(expression, ",") {
		start := at + len(part) - len(strings.TrimLeft(part, " "))
		at += len(part) + 1
		key, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return Expression{}, badExpression(expression, start, "key=value or key!=value is expected", "应为 key=value 或 key!=value")
		}
		t := term{value: strings.TrimSpace(value)}
		if key, t.not = strings.CutSuffix(key, "!"); strings.HasPrefix(value, "=") {
			return Expression{}, badExpression(expression, start, "write = once", "只写一个 =")
		}
		if t.key = strings.TrimSpace(key); !protocol.ValidID(t.key) {
			return Expression{}, badExpression(expression, start, "the label's name must be of A-Z a-z 0-9 . _ -", "标签名只能包含 A-Z a-z 0-9 . _ -")
		}
		if t.value == "" || strings.ContainsAny(t.value, "=!") {
			return Expression{}, badExpression(expression, start, "the label's value is empty or holds = or !", "标签值为空或含有 = 或 !")
		}
		terms = append(terms, t)
	}
	return Expression{terms}, nil
}

// badExpression counts characters from 1, as people do.
func badExpression(expression string, at int, reason, reasonZh string) *protocol.Error {
	position := len([]rune(expression[:min(at, len(expression))])) + 1
	return &protocol.Error{Code: protocol.CodeSchema, Path: "/stores/labels",
		Message:   fmt.Sprintf("the label expression %q is wrong at character %d: %s", clip(expression), position, reason),
		MessageZh: fmt.Sprintf("标签表达式 %q 第 %d 个字符处有误：%s", clip(expression), position, reasonZh),
		Hint:      `for example {"labels":"region=east,format!=kiosk"}; a comma means and`,
		HintZh:    `例如 {"labels":"region=east,format!=kiosk"}；逗号表示“且”`}
}

func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
