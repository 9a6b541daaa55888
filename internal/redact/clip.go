package redact

import (
	"bytes"
	"unicode/utf8"
)

// maxTokenBytes bounds how far Clip goes back for the sake of a whole word.
const maxTokenBytes = 512

// Clip returns the head of a text of at most limit bytes, cut between characters, and so that no word is cut in half
// and no URL loses its end: half of "user:password@host" could not be told from an address without a password, and
// half of a token not from a word. The result shares the text's memory.
func Clip(text []byte, limit int) []byte {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return WithoutLoose(text[:limit])
}

// WithoutLoose returns a text whose end was cut off without the word that may have been cut through.
func WithoutLoose(text []byte) []byte {
	// What ends an address: a password in one may hold any other character.
	end := bytes.LastIndexAny(text, " \t\n\"'<>`")
	if scheme := bytes.LastIndex(text, []byte("://")); scheme > end {
		return text[:scheme+len("://")]
	}
	if word := bytes.LastIndexAny(text, " \t\n\"'<>`,;&"); word > 0 && len(text)-word <= maxTokenBytes {
		return text[:word]
	}
	return text
}
