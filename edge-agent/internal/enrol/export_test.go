package enrol

// FirstRenewal and NextRenewal are when a certificate is due.
var (
	FirstRenewal = firstRenewal
	NextRenewal  = nextRenewal
)
