package link

// BackOff is the wait after a number of earlier failures.
var BackOff = backOff
