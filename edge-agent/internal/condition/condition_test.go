package condition_test

import (
	"runtime"
	"testing"

	"muster/edge-agent/internal/condition"
)

func TestMeasureGivesSaneValuesOrNone(t *testing.T) {
	t.Parallel()
	c := condition.Measure(t.TempDir())
	if c.DiskFreeMB == nil || *c.DiskFreeMB < 1 {
		t.Errorf("free disk %v", c.DiskFreeMB)
	}
	if runtime.GOOS == "linux" && (c.Load == nil || *c.Load < 0) {
		t.Errorf("load %v", c.Load)
	}
	for name, v := range map[string]*float64{"battery": c.BatteryPct, "signal": c.SignalPct} {
		if v != nil && (*v < 0 || *v > 100) {
			t.Errorf("%s %v %%", name, *v)
		}
	}
	if c := condition.Measure("/no/such/folder"); c.DiskFreeMB != nil {
		t.Errorf("free disk of nothing: %d", *c.DiskFreeMB)
	}
}
