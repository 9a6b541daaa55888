package checker

import "encoding/json"

// audit: the chain of the audit's entries holds.
func audit(b *book) {
	if b.Audit == nil {
		return
	}
	b.weigh("words", 1)
	var said struct {
		OK    *bool  `json:"ok"`
		Text  string `json:"text"`
		Wrong int64  `json:"wrong"`
	}
	switch err := json.Unmarshal(b.Audit.Output, &said); {
	case err != nil || said.OK == nil:
		b.broken(Finding{}, "what audit verify printed says nothing (exit code %d): %s", b.Audit.Exit, clip(string(b.Audit.Output)))
	case b.Audit.Exit != 0 || !*said.OK || said.Wrong != 0:
		b.broken(Finding{}, "audit verify ended with code %d and %d faults: %s", b.Audit.Exit, said.Wrong, said.Text)
	}
}
