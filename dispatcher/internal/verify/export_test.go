package verify

// SameRows is a seam: a database's rows cannot be changed behind its notes.
var SameRows = sameRows
