package config_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"muster/dispatcher/config"
	"muster/internal/settings"
)

// TestEveryKeyIsGivenByFileEnvironmentAndFlags: each goes over the one before.
func TestEveryKeyIsGivenByFileEnvironmentAndFlags(t *testing.T) {
	t.Parallel()
	keys := settings.Keys(&config.Config{})
	if len(keys) < 60 {
		t.Fatalf("only %d keys", len(keys))
	}
	for _, key := range keys {
		var cfg config.Config
		file, err := settings.Decode("none.yaml", nil, &cfg)
		if err != nil {
			t.Fatal(err)
		}
		first, second := samples(t, file, &cfg, key.Name)
		for _, layer := range []struct{ environ, sets []string }{
			{[]string{key.Env + "=" + first}, nil},
			{[]string{key.Env + "=" + second}, []string{key.Name + "=" + first}},
		} {
			over, err := settings.Over(layer.environ, layer.sets, &cfg)
			if err == nil {
				err = file.Put(&cfg, over)
			}
			if got := meaning(t, file, &cfg, key.Name); err != nil || strings.Trim(string(got.Value), `"`) != first || got.From == "default" {
				t.Errorf("%s is %s from %s, want %s: %v", key.Name, got.Value, got.From, first, err)
			}
		}
	}
}

func meaning(t *testing.T, file *settings.File, cfg *config.Config, key string) settings.Effective {
	t.Helper()
	all, err := file.Effective(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Key == key {
			return e
		}
	}
	t.Fatalf("%s is not shown", key)
	return settings.Effective{}
}

// samples are two texts for a key, by the kind of its value.
func samples(t *testing.T, file *settings.File, cfg *config.Config, key string) (first, second string) {
	t.Helper()
	var value any
	if err := json.Unmarshal(meaning(t, file, cfg, key).Value, &value); err != nil {
		t.Fatal(err)
	}
	switch v := value.(type) {
	case bool:
		return fmt.Sprint(!v), fmt.Sprint(v)
	case float64:
		return "7", "8"
	case string:
		if v == "0s" {
			return "7s", "8s"
		}
		return "seven", "eight"
	}
	t.Fatalf("%s is a %T", key, value)
	return "", ""
}

func TestTheEnvironmentIsCheckedAsTheFileIs(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{
		"admission.max_running=0":        "--set: admission.max_running: 0 is out of range",
		"broker.listeners.tcp.address=x": "--set: broker.listeners.tcp.address: \"x\" is not host:port",
		"broker.topic_root=other/v1":     "--set: broker.topic_root: \"other/v1\" is not topic_root",
		"collection.burst_bytes=many":    "--set: collection.burst_bytes: must be a whole number",
		"broker.limits.max_keepalive=7":  "--set: broker.limits.max_keepalive: must be a duration with its unit",
	} {
		over, err := settings.FromFlags([]string{set})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := config.Load("", over...); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", set, err, want)
		}
	}
}
