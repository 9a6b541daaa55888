package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/big"
	"reflect"
	"strings"
)

// DecodeRequest is Decode for what a person may have written: 10.0 and 1e1 are whole
// numbers, too, as they are to JSON Schema (draft-07 validation, 6.1.1), by which inputs
// go. Between programs they are none, so that whoever reads a message finds the same.
func DecodeRequest(data []byte, limit int, dst any) error {
	return decode(data, limit, dst, func(doc []byte, dst any) error {
		err := json.Unmarshal(doc, dst)
		if wantsDigits(err) {
			err = json.Unmarshal(inDigits(doc), dst)
		}
		return err
	})
}

// wantsDigits reports whether a document was refused for a number where a whole one is
// expected: encoding/json takes those by their digits alone.
func wantsDigits(err error) bool {
	var typeErr *json.UnmarshalTypeError
	return errors.As(err, &typeErr) && strings.HasPrefix(typeErr.Value, "number") &&
		typeErr.Type.Kind() >= reflect.Int && typeErr.Type.Kind() <= reflect.Uint64
}

// inDigits writes the whole numbers of a scanned document, such as 10.0 and 1e1, by their
// digits. What an int64 cannot hold stays as it is.
func inDigits(doc []byte) []byte {
	out, done := make([]byte, 0, len(doc)), 0
	for at := 0; at < len(doc); {
		switch c := doc[at]; {
		case c == '"':
			at = behindText(doc, at)
		case c == '-' || c >= '0' && c <= '9':
			end := len(doc) - len(bytes.TrimLeft(doc[at:], "0123456789+-.eE"))
			if n, ok := new(big.Rat).SetString(string(doc[at:end])); ok && n.IsInt() && n.Num().IsInt64() {
				out = n.Num().Append(append(out, doc[done:at]...), 10)
				done = end
			}
			at = end
		default:
			at++
		}
	}
	return append(out, doc[done:]...)
}

// behindText is where the string that begins at a place of a scanned document is over.
func behindText(doc []byte, at int) int {
	for at++; doc[at] != '"'; at++ {
		if doc[at] == '\\' {
			at++
		}
	}
	return at + 1
}
