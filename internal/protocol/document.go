package protocol

import (
	"bytes"
	"encoding/json"
)

// Document is a JSON document that Scan would let pass. Only this package makes one,
// so whoever gets it need not look for what Scan refuses. The zero value is none.
type Document struct{ doc []byte }

// Bytes returns the document, without white space around it. It must not be changed.
func (d Document) Bytes() []byte { return d.doc }

// ScanDocument is Scan that returns a Document, which aliases data.
func ScanDocument(data []byte, limit int) (Document, error) {
	doc, err := Scan(data, limit)
	return Document{doc}, err
}

// DecodeResult is Decode for an answer. It returns its result besides, which was
// scanned with the payload; none when there is no result.
func DecodeResult(data []byte, limit int, m *Result) (Document, error) {
	*m = Result{}
	if err := Decode(data, limit, m); err != nil {
		return Document{}, err
	}
	return Document{m.Result}, nil
}

// SeqOf returns the number in a message's frame, 0 when it has none, as Decode would
// read it. readable is false when the message is no JSON, no object, or has something
// else there; what Decode refuses for other reasons may be readable all the same.
func SeqOf(data []byte) (seq int64, readable bool) {
	s := takeScanner()
	defer s.giveBack()
	if s.scan(data, len(data), numberedType) == nil && len(s.raw) == 1 {
		if seq, plain := PlainInt(s.data[s.raw[0].start:s.raw[0].end]); plain {
			return seq, true
		}
	}
	var n struct {
		Seq int64 `json:"seq"`
	}
	err := json.Unmarshal(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), &n)
	return n.Seq, err == nil
}

// PlainInt reads a number that is written as nothing but digits, 18 at most, with or
// without a minus.
func PlainInt(literal []byte) (n int64, plain bool) {
	const most = 18
	digits := bytes.TrimPrefix(literal, []byte("-"))
	if len(digits) == 0 || len(digits) > most {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	if len(digits) < len(literal) {
		n = -n
	}
	return n, true
}
