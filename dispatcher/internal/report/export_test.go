package report

// TextCell and Visible are seams for property tests.
var (
	TextCell = textCell
	Visible  = visible
)
