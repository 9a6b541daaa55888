package settings_test

import (
	"strings"
	"testing"

	"muster/internal/settings"
)

func TestAddressTakesWhatCanBeListenedOn(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"127.0.0.1:1883", ":0", "[::1]:8883", "localhost:65535", "hq-1.example.:80", "[fe80::1%eth0]:1"} {
		if _, _, err := settings.Address(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"": "is not host:port", "1883": "is not host:port", "127.0.0.1": "is not host:port", "::1:1883": "is not host:port",
		"127.0.0.1:99999": "has no port from 0 (any) to 65535", "127.0.0.1:-1": "has no port", "127.0.0.1:mqtt": "has no port", "127.0.0.1:": "has no port",
		"256.0.0.1:1883": "neither an IP address nor the name of a host", "a b:1": "neither an IP", "主机:1": "neither an IP",
	} {
		if _, _, err := settings.Address(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestURLSaysWhereAndNoMore(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"mqtts://hq.example", "mqtts://hq:8883", "wss://hq/mqtt", "mqtt://[::1]:1883", "mqtt://127.0.0.1/"} {
		if _, err := settings.URL(text, "mqtt", "wss", "mqtts"); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"": "must be a URL such as mqtts://hq.example with scheme mqtt, wss, mqtts", "hq:8883": "must be a URL", "http://hq": "must be a URL", "mqtts://": "must be a URL",
		"mqtts://hq:99999": "has no port from 1 to 65535", "mqtts://hq:0": "has no port", "mqtts://hq:": "has no port",
		"mqtts://300.1.1.1": "names neither an IP address nor a host", "mqtts://hq/x": "says more than where; write mqtts://hq",
		"mqtts://hq?x=1": "says more than where", "mqtts://u:hunter2@hq": "must hold no password",
	} {
		if _, err := settings.URL(text, "mqtt", "wss", "mqtts"); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestCollideFindsOnePortTwice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		one, other string
		want       bool
	}{
		{"127.0.0.1:1", "127.0.0.1:1", true}, {"127.0.0.1:1", "localhost:1", true}, {"0.0.0.0:1", "10.0.0.1:1", true}, {":1", "[::1]:1", true},
		{"127.0.0.1:1", "127.0.0.1:2", false}, {"127.0.0.1:1", "127.0.0.2:1", false}, {":0", ":0", false}, {"", ":1", false},
	} {
		if settings.Collide(c.one, c.other) != c.want || settings.Collide(c.other, c.one) != c.want {
			t.Errorf("%s and %s: not %v", c.one, c.other, c.want)
		}
	}
}
