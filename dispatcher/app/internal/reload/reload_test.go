package reload_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"muster/dispatcher/app/internal/reload"
	"muster/dispatcher/config"
	"muster/internal/protocol"
)

// TestARefusalSaysWhatIsWrongAndWhereInBothLanguages, in Chinese without the line that is
// quoted.
func TestARefusalSaysWhatIsWrongAndWhereInBothLanguages(t *testing.T) {
	t.Parallel()
	const fault = "hq/dispatcher.yaml:12: admission.max_running: 0 is out of range; write 1 to 1000000"
	r := reload.New(reload.Config{Read: func() (config.Config, error) { return config.Config{}, errors.New(fault + "\n  12 |   max_running: 0") },
		Refused: func(error) {}, Logger: slog.New(slog.DiscardHandler)})
	defer r.Stop()
	_, err := r.Again(t.Context())
	var refused *protocol.Error
	if !errors.As(err, &refused) {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(refused.Message, fault+"\n") || !strings.HasSuffix(refused.MessageZh, "原配置继续有效；程序给出的原因："+fault) {
		t.Errorf("%s\n%s", refused.Message, refused.MessageZh)
	}
}
