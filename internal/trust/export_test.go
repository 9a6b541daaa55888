package trust

// IsUnfinished tells whether a file is called as what WritePrivate has not finished.
var IsUnfinished = unfinished.MatchString
