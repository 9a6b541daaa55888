package doctor_test

import (
	"strings"
	"testing"

	"muster/internal/doctor"
	"muster/internal/settings"
)

func TestTheVerdictCountsAndVariablesAreProse(t *testing.T) {
	t.Parallel()
	strays := settings.Strays{{Name: "MUSTER_STROE", Nearest: "MUSTER_STORE"}, {Name: "MUSTER_Z"}}
	found := doctor.Run(t.Context(), []doctor.Check{doctor.Configuration("edge-agent", "agent.yaml", nil, strays)})
	var said strings.Builder
	if err := found.Write(&said); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"agent.yaml is valid; the environment has MUSTER_STROE, which is no key; did you mean MUSTER_STORE?; the environment has MUSTER_Z, which is no key\n",
		"1 check: 0 ok, 1 warning, 0 failed, 0 not looked at\n",
	} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%s has no %s", said.String(), want)
		}
	}
}
