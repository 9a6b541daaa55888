package machine_test

import (
	"errors"
	"testing"

	"muster/internal/machine"
)

func TestTheMachineTellsItsLimits(t *testing.T) {
	t.Parallel()
	room, err := machine.Disk(t.TempDir())
	if err != nil || room.Free == 0 || room.Free > room.Total {
		t.Errorf("room %+v, %v", room, err)
	}
	if _, err := machine.Disk("/no/such/folder"); err == nil {
		t.Error("nothing has room")
	}
	if files, err := machine.OpenFiles(); !errors.Is(err, machine.ErrUnknown) && (err != nil || files < 16) {
		t.Errorf("open files %d, %v", files, err)
	}
}
