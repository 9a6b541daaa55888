package report

// TextCell, Visible and Shown are seams for property tests.
var (
	TextCell = textCell
	Visible  = visible
	Shown    = shown
)
