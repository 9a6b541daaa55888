package collect

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"muster/edge-agent/internal/collect/sources"
	"muster/edge-agent/internal/collect/stamp"
	"muster/edge-agent/internal/collect/textenc"
)

const (
	maxResultBytes = 256 << 10
	minResultBytes = 8 << 10
	// defaultReadBytes bounds what one run reads from the disk: minutes of a slow one.
	defaultReadBytes = 2 << 30
	// defaultDecompressedBytes bounds what one packed file unpacks to: the log of a busy month.
	defaultDecompressedBytes = 512 << 20
	defaultFiles             = 2000
)

// Config says what a terminal collects. Only TimeZone is required.
type Config struct {
	// Logs are globs of log files ("**" crosses directories); rotated siblings are found by themselves. Linked folders
	// behind the first wildcard are not gone into.
	Logs []string `yaml:"logs"`
	// ConfigFiles are globs of configuration files.
	ConfigFiles []string `yaml:"config_files"`
	// TimeZone is the store's zone by its IANA name ("Asia/Shanghai").
	TimeZone string `yaml:"time_zone"`
	// Encodings declare encodings by glob, for files whose encoding must not be guessed. Of several globs that match,
	// the longest counts. A glob without a slash is matched with the name alone; see OfOnePlace.
	Encodings map[string]string `yaml:"encodings"`
	// TimestampLayouts are further forms of time stamps at the start of a line, as Go's package time writes them.
	TimestampLayouts []string `yaml:"timestamp_layouts"`
	// MaxResultBytes bounds the result; 8192 to 262144, 0 means 262144.
	MaxResultBytes int `yaml:"max_result_bytes"`
	// MaxReadBytes bounds the bytes that a run reads from the disk, newest files first; 0 means 2 GiB.
	MaxReadBytes int64 `yaml:"max_read_bytes"`
	// MaxDecompressedBytes bounds what a packed file unpacks to; 0 means 512 MiB.
	MaxDecompressedBytes int64 `yaml:"max_decompressed_bytes"`
	// MaxFiles bounds how many files are taken; 0 means 2000.
	MaxFiles int `yaml:"max_files"`
}

// Filled is the configuration with its defaults in the place of zero values.
func (c Config) Filled() Config {
	c.MaxResultBytes = cmp.Or(c.MaxResultBytes, maxResultBytes)
	c.MaxReadBytes = cmp.Or(c.MaxReadBytes, defaultReadBytes)
	c.MaxDecompressedBytes = cmp.Or(c.MaxDecompressedBytes, defaultDecompressedBytes)
	c.MaxFiles = cmp.Or(c.MaxFiles, defaultFiles)
	return c
}

func (c Config) check() (*time.Location, error) {
	switch {
	case c.TimeZone == "":
		return nil, errors.New("cannot use time_zone: it is missing")
	case c.TimeZone == "Local":
		return nil, errors.New(`cannot use time_zone "Local": name the store's zone, such as "Asia/Shanghai"`)
	case c.MaxResultBytes < minResultBytes || c.MaxResultBytes > maxResultBytes:
		return nil, fmt.Errorf("cannot use max_result_bytes %d: it must lie between %d and %d",
			c.MaxResultBytes, minResultBytes, maxResultBytes)
	case c.MaxReadBytes < 0:
		return nil, fmt.Errorf("cannot use max_read_bytes %d: it is negative", c.MaxReadBytes)
	case c.MaxDecompressedBytes < 0:
		return nil, fmt.Errorf("cannot use max_decompressed_bytes %d: it is negative", c.MaxDecompressedBytes)
	case c.MaxFiles < 0:
		return nil, fmt.Errorf("cannot use max_files %d: it is negative", c.MaxFiles)
	}
	for i, layout := range c.TimestampLayouts {
		if err := stamp.CheckLayout(layout); err != nil {
			return nil, fmt.Errorf("cannot use timestamp_layouts[%d] %q: %w", i, layout, err)
		}
	}
	location, err := time.LoadLocation(c.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("cannot use time_zone %q: %w", c.TimeZone, err)
	}
	return location, nil
}

func globs(key string, patterns []string, siblings bool) ([]*sources.Glob, error) {
	checked := make([]*sources.Glob, 0, len(patterns))
	for i, pattern := range patterns {
		glob, err := sources.NewGlob(pattern, siblings)
		if err != nil {
			return nil, fmt.Errorf("cannot use %s[%d] %q: %w", key, i, pattern, err)
		}
		checked = append(checked, glob)
	}
	return checked, nil
}

// declaredEncoding is an encoding declared for the paths that a pattern matches.
type declaredEncoding struct{ pattern, name string }

// declaredEncodings returns the declarations in the order in which they are tried.
func declaredEncodings(declared map[string]string) ([]declaredEncoding, error) {
	patterns := slices.SortedFunc(maps.Keys(declared), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	known := make([]declaredEncoding, 0, len(patterns))
	for _, pattern := range patterns {
		name, err := textenc.Canonical(declared[pattern])
		if err != nil {
			return nil, fmt.Errorf("cannot use encodings[%q]: %w", pattern, err)
		}
		slashed := filepath.ToSlash(pattern)
		if pattern == "" || !doublestar.ValidatePattern(slashed) {
			return nil, fmt.Errorf("cannot use encodings[%q]: the pattern is malformed", pattern)
		}
		if OfOnePlace(slashed) {
			if slashed, err = absolute(slashed); err != nil {
				return nil, fmt.Errorf("cannot use encodings[%q]: %w", pattern, err)
			}
		}
		known = append(known, declaredEncoding{pattern: fold(slashed), name: name})
	}
	return known, nil
}

// OfOnePlace tells whether a glob of Config.Encodings is about files below one folder, which it names, and not about
// files of a name wherever they are.
func OfOnePlace(glob string) bool {
	slashed := filepath.ToSlash(glob)
	return strings.Contains(slashed, "/") && !strings.HasPrefix(slashed, "**")
}

func absolute(pattern string) (string, error) {
	base, rest := doublestar.SplitPattern(pattern)
	full, err := filepath.Abs(filepath.FromSlash(base))
	if err != nil {
		return "", err
	}
	return strings.NewReplacer("*", `\*`, "?", `\?`, "[", `\[`, "{", `\{`).Replace(filepath.ToSlash(full)) + "/" + rest, nil
}

// fold makes names alike that the system takes for the same.
func fold(name string) string {
	if runtime.GOOS == "windows" {
		return strings.ToLower(name)
	}
	return name
}

// encodingOf returns the encoding declared for a file, by its own name or by that before rotation; "" is none.
func (c *Collector) encodingOf(match sources.Match) string {
	for _, declared := range c.encodings {
		for _, name := range [...]string{match.Path, match.Canonical} {
			name = fold(filepath.ToSlash(name))
			if !strings.Contains(declared.pattern, "/") {
				name = name[strings.LastIndexByte(name, '/')+1:]
			}
			if doublestar.MatchUnvalidated(declared.pattern, name) {
				return declared.name
			}
		}
	}
	return ""
}
