package words_test

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"muster/dispatcher/internal/report/words"
)

func TestWhatActsIsWhatUnicodeSays(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		want := unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
		if r == '\u200c' || r == '\u200d' || !utf8.ValidRune(r) {
			want = false
		}
		if got := words.Visible(string(r)) != string(r); got != want {
			t.Errorf("%U acts: %t, want %t", r, got, want)
		}
	}
}
