// Package configs holds the runnable defaults, embedded so that the programs
// work without any file. It holds nothing else.
package configs

import "embed"

// FS holds the *.yaml files, jobs/*.yaml and stores.csv of this folder.
//
//go:embed *.yaml jobs/*.yaml stores.csv
var FS embed.FS
