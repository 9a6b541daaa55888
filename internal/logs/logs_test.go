package logs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"muster/internal/logs"
)

func TestWhateverIsLoggedStaysOneVisibleLine(t *testing.T) {
	t.Parallel()
	hostile := "x\r\nlevel=ERROR msg=forged\x1b[2K\x1b[31m\u202e\u2028\x00\u200b\u0085 门店"
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		log, err := logs.New(&out, "info", format)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("request refused", "user", hostile, "error", errors.New(hostile))
		log.With("user", hostile).WithGroup("g").Error("twice", "n", 7)
		text := out.String()
		if strings.Count(text, "\n") != 2 || strings.ContainsAny(text, "\r\x1b\u202e\u2028\x00\u200b\u0085") {
			t.Errorf("%s: %q", format, text)
		}
		if !strings.Contains(text, "forged") || !strings.Contains(text, "门店") {
			t.Errorf("%s lost what was said: %q", format, text)
		}
		if format == "json" {
			for line := range strings.Lines(text) {
				if !json.Valid([]byte(line)) {
					t.Errorf("no JSON: %s", line)
				}
			}
		}
	}
}

type code string

func TestWhatStrangersSendIsClippedInALine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("门\u202e", 20_000)
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		log, err := logs.New(&out, "info", format)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("message refused", "key_id", long, "error", fmt.Errorf("key %q: %w", long, errors.New("unknown")), "code", code(long), "payload", []byte(long))
		if out.Len() > 4*4*logs.MaxText || !strings.Contains(out.String(), "bytes)") || strings.Contains(out.String(), "\u202e") {
			t.Errorf("%s: %d bytes, %.300q", format, out.Len(), out.String())
		}
	}
}

func TestLevelAndFormatAreChecked(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	for _, c := range [][2]string{{"loud", "text"}, {"", "text"}, {"info", "xml"}, {"info", ""}, {"INFO+3", "json"}} {
		if _, err := logs.New(&out, c[0], c[1]); err == nil {
			t.Errorf("%q was taken", c)
		}
	}
	log, err := logs.New(&out, "warn", "text")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("unheard")
	log.Warn("heard")
	if strings.Contains(out.String(), "unheard") || !strings.Contains(out.String(), "heard") {
		t.Errorf("%q", out.String())
	}
}
