package house

// The commands that need the dispatcher on this machine, or its folder, as they
// are registered.
var (
	InitCommand      = initCommand
	EnrollCommand    = enrollCommand
	RevokeCommand    = revokeCommand
	TerminalsCommand = terminalsCommand
	KeysCommand      = keysCommand
	CertifyCommand   = certifyCommand
)
