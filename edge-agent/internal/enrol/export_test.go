package enrol

// UntilDue is how long a certificate is left alone.
var UntilDue = untilDue
