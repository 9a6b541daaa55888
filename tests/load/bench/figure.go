package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// figure is one measurement as it is kept, one a line.
type figure struct {
	Label, Sys string
	Rep        int
	Values     map[string]float64
	Commit     string `json:",omitzero"` // of ours
	Failed     string `json:",omitzero"` // why there are no values
}

// read takes the line of JSON that a step printed: whatever is a number in it.
func (f *figure) read(line []byte) error {
	var members map[string]any
	if err := json.Unmarshal(line, &members); err != nil {
		return fmt.Errorf("cannot read %q: %w", line, err)
	}
	f.Values = map[string]float64{}
	flatten(f.Values, "", members)
	if note, _ := members["Note"].(string); len(note) >= 7 && note[:7] == "TIMEOUT" {
		return errors.New(note)
	}
	if n := f.Values["N"]; n > 0 && f.Values["WallMS"] > 0 {
		f.Values["cpu_task"] = (f.Values["CPUSrv"] + f.Values["CPUExt"] + f.Values["CPUWrk"]) / n * 1e6
		f.Values["cpu_server"] = (f.Values["CPUSrv"] + f.Values["CPUExt"]) / n * 1e6
	}
	return nil
}

func flatten(into map[string]float64, prefix string, members map[string]any) {
	for name, value := range members {
		switch v := value.(type) {
		case float64:
			into[prefix+name] = v
		case map[string]any:
			flatten(into, prefix+name+".", v)
		}
	}
}

// load reads the figures of a file; none when there is no file.
func load(path string) (all []figure, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var f figure
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			return nil, fmt.Errorf("cannot read a line of %s: %w", path, err)
		}
		all = append(all, f)
	}
	return all, lines.Err()
}

// keep appends a figure to a file.
func keep(path string, f figure) (err error) {
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.Write(append(line, '\n'))
	return err
}

// ref names a value of a system.
type ref struct{ label, sys, value string }

// of is the value in each repetition. Of a repetition that was measured again the
// last counts.
func (r ref) of(all []figure) map[int]float64 {
	out := map[int]float64{}
	for _, f := range all {
		if v, there := f.Values[r.value]; there && f.Label == r.label && f.Sys == r.sys {
			out[f.Rep] = v
		}
	}
	return out
}

// median is the middle of values; of an even number, between the two.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	values = slices.Sorted(slices.Values(values))
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}
