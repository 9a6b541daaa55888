package server_test

import (
	"bytes"
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"

	"muster/broker/server"
	"muster/tests/programs"
)

// stock finds the mosquitto command line tools, which technicians use.
func stock(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"mosquitto_pub", "mosquitto_sub", "mosquitto_rr"} {
		programs.Installed(t, tool)
	}
}

func tool(t *testing.T, s *server.Server, name string, args ...string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(s.Addr("tcp").String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, append([]string{"-h", host, "-p", port, "-u", "alice", "-P", "wonderland"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Errorf("%s %v: %v: %s", name, args, err, errs.String())
	}
	return strings.TrimSpace(out.String())
}

func TestStockToolsAskAndWatch(t *testing.T) {
	stock(t)
	taken := make(chan server.Message, 10)
	var s *server.Server
	s = start(t, withUsers(t), server.Options{Intake: func(ctx context.Context, m server.Message) error {
		taken <- m
		if m.ResponseTopic == "" {
			return nil
		}
		return s.Publish(ctx, server.Outgoing{Topic: m.ResponseTopic, Payload: []byte(`{"ok":true}`), CorrelationData: m.CorrelationData})
	}})
	for _, version := range []string{"mqttv5", "mqttv311", "mqttv31"} {
		for _, qos := range []string{"0", "1", "2"} {
			tool(t, s, "mosquitto_pub", "-V", version, "-q", qos, "-t", root+"/req/alice/run", "-m", version+qos, "-r")
			if m := receive(t, taken); string(m.Payload) != version+qos || !m.Retained || m.User != "alice" || m.Role != "technician" {
				t.Errorf("%s QoS %s: %+v", version, qos, m)
			}
		}
		publish(t, s, root+"/info", "about", true)
		if got := tool(t, s, "mosquitto_sub", "-V", version, "-C", "1", "-t", root+"/info", "-F", "%r %p"); got != "1 about" {
			t.Errorf("%s: subscriber got %q", version, got)
		}
	}
	got := tool(t, s, "mosquitto_rr", "-V", "mqttv5", "-t", root+"/req/alice/status", "-e", root+"/rep/alice/x", "-m", "{}")
	if got != `{"ok":true}` {
		t.Errorf("mosquitto_rr got %q", got)
	}
}
