// Package schemas holds the JSON Schemas of every message, of every job's
// input and output, and of the report: the contract that other agents and
// tools are written against. It holds nothing else.
package schemas

import "embed"

// FS holds the *.schema.json files by their bare names.
//
//go:embed *.schema.json
var FS embed.FS
