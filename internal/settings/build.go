package settings

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// About says how a program was built.
type About struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the source
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Build tells of this program; version is what its linker was told.
func Build(version string) About {
	a := About{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return a
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			a.Revision = s.Value
		}
	}
	return a
}

// String is one line.
func (a About) String() string {
	if a.Revision == "" {
		return fmt.Sprintf("%s (%s, %s)", a.Version, a.Go, a.Platform)
	}
	return fmt.Sprintf("%s (%s, %s, %s)", a.Version, a.Revision, a.Go, a.Platform)
}
