package link

// BackOff is the wait after a number of earlier failures.
var BackOff = backOff

// FailuresBefore is how many failures in a row stand before one.
var FailuresBefore = failuresBefore

// Pinger asks whether the broker is there.
type Pinger = pinger

// RivalWait is what a link waits after it was pushed out.
var RivalWait = rivalWait
