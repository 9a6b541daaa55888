package admin_test

import (
	"errors"
	"net/http"
	"testing"

	"muster/dispatcher/internal/admin"
	"muster/internal/protocol"
)

func TestHealthIsTheWordOfTheProgramAndItsDatabase(t *testing.T) {
	hq := setup(t)
	got, err := hq.client().Health(t.Context())
	if err != nil || !got.OK || got.Version != "v1.2" {
		t.Fatalf("got %+v, %v", got, err)
	}
	response, err := http.Get("http://" + hq.server.Addr().String() + "/v1/health")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("a stranger is answered %s", response.Status)
	}
	c := hq.client()
	if err := hq.store.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = c.Health(t.Context())
	wantRefused(t, err, protocol.CodeInternal, "closed")
	if err := hq.server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Health(t.Context()); !errors.Is(err, admin.ErrNotRunning) {
		t.Errorf("stopped: %v", err)
	}
}
