package main

// Row is one measured case. Its names are those of the peers' program, so that
// one reader does for both.
type Row struct {
	Sys                      string
	N, W                     int     // tasks, terminals
	DispMS, WallMS, ReportMS float64 // trigger to last offer; to last receipt; the report
	TPS, P50, P99, Max       float64 // tasks/s; trigger to offer, ms
	CPUSrv, CPUExt, CPUWrk   float64 // seconds: headquarters, its servers, the terminals
	RSSSrv, RSSExt, RSSWrk   float64 // MiB at most
	Other                    float64 // cores that other programs used meanwhile
	Note                     string

	Rep      int     `json:",omitzero"`
	Think    string  `json:",omitzero"` // how long an execution takes
	GrantP99 float64 `json:",omitzero"` // trigger to grant, ms
	Ingest   float64 `json:",omitzero"` // results/s, when all were held back until all was granted
	AllMS    float64 `json:",omitzero"` // as ReportMS, of every format
	Commit   string  `json:",omitzero"`

	Allocs, AllocBytes float64 `json:",omitzero"` // a task, of a headquarters that is profiled
}
