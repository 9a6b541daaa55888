package access

// Row is one row of the table.
type Row struct {
	Role               Role
	Publish, Subscribe []string
}

// Table is the table as it is written.
func Table() []Row {
	var rows []Row
	for _, g := range table() {
		rows = append(rows, Row{g.role, g.publish, g.subscribe})
	}
	return rows
}
