package checker

// Value is the value at a JSON Pointer.
var Value = value
