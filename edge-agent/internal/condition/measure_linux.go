package condition

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"muster/internal/protocol"
)

func measure() protocol.Condition {
	return protocol.Condition{
		Load:         load(),
		BatteryPct:   battery(),
		SignalPct:    signal(),
		TemperatureC: temperature(),
	}
}

// load is the one-minute run queue a core.
func load() *float64 {
	fields := strings.Fields(read("/proc/loadavg"))
	if len(fields) == 0 {
		return nil
	}
	v := number(fields[0])
	if v != nil {
		*v /= float64(runtime.NumCPU())
	}
	return v
}

// battery is the charge of the fullest battery.
func battery() *float64 {
	var most *float64
	for _, folder := range glob("/sys/class/power_supply/*") {
		if read(filepath.Join(folder, "type")) != "Battery" {
			continue
		}
		if v := number(read(filepath.Join(folder, "capacity"))); v != nil && (most == nil || *v > *most) {
			most = v
		}
	}
	return most
}

// temperature is that of the hottest zone.
func temperature() *float64 {
	var most *float64
	for _, path := range glob("/sys/class/thermal/thermal_zone*/temp") {
		if v := number(read(path)); v != nil && (most == nil || *v/1000 > *most) {
			*v /= 1000
			most = v
		}
	}
	return most
}

// signal is the link quality of the first wireless interface; 70 is the top of
// the scale that most drivers use.
func signal() *float64 {
	lines := strings.Split(read("/proc/net/wireless"), "\n")
	const headerLines, quality, top = 2, 2, 70
	if len(lines) <= headerLines {
		return nil
	}
	fields := strings.Fields(lines[headerLines])
	if len(fields) <= quality {
		return nil
	}
	v := number(strings.TrimSuffix(fields[quality], "."))
	if v != nil {
		*v = min(100, *v*100/top)
	}
	return v
}

func glob(pattern string) []string {
	// The patterns are constants and well-formed; an unreadable folder gives none.
	paths, _ := filepath.Glob(pattern)
	return paths
}

func read(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func number(s string) *float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil
	}
	return &v
}
