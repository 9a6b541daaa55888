package schema

import "muster/internal/protocol"

// Sure reports whether the library need not be asked about a document.
func (s *Schema) Sure(doc protocol.Document) bool {
	c := protocol.NewCursor(doc.Bytes())
	return s.sure.admits(&c)
}

// Ask is what the library says, whatever Sure does.
func (s *Schema) Ask(doc protocol.Document) error { return s.ask(doc.Bytes()) }
