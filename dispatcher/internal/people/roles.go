package people

import (
	"fmt"
	"slices"
	"strings"

	"muster/internal/protocol"
)

// Role says what a person may do; the names are those of the users file.
type Role string

// The roles. An auditor reads everything at the broker and asks nothing; the
// dispatcher is headquarters itself and asks nobody.
const (
	Technician Role = "technician"
	Operator   Role = "operator"
	Developer  Role = "developer"
	Approver   Role = "approver"
	Auditor    Role = "auditor"
	Dispatcher Role = "dispatcher"
)

// Roles lists every role, in a fixed order.
func Roles() []Role { return []Role{Technician, Operator, Developer, Approver, Auditor, Dispatcher} }

// Verbs lists what the role may ask for, in a fixed order. What is not in it is
// refused.
func (r Role) Verbs() []protocol.Verb {
	const (
		run, cancel, retry = protocol.VerbRun, protocol.VerbCancel, protocol.VerbRetry
		status, approve    = protocol.VerbStatus, protocol.VerbApprove
		jobs, help         = protocol.VerbJobs, protocol.VerbHelp
	)
	switch r {
	case Technician, Operator:
		return []protocol.Verb{run, cancel, status, retry, jobs, help}
	case Developer:
		return []protocol.Verb{status, jobs, help}
	case Approver:
		return []protocol.Verb{status, approve, jobs, help}
	case Auditor, Dispatcher:
	}
	return nil
}

// changes reports whether a verb changes something.
func changes(verb protocol.Verb) bool {
	switch verb {
	case protocol.VerbRun, protocol.VerbCancel, protocol.VerbRetry, protocol.VerbApprove:
		return true
	case protocol.VerbStatus, protocol.VerbJobs, protocol.VerbHelp:
	}
	return false
}

// Verbs lists what the person may ask for.
func (p Person) Verbs() []protocol.Verb {
	verbs := p.Role.Verbs()
	if p.approves && !slices.Contains(verbs, protocol.VerbApprove) {
		verbs = append(verbs, protocol.VerbApprove)
	}
	return verbs
}

// May refuses with NOT_ALLOWED a verb that the person does not have.
func (p Person) May(verb protocol.Verb) error {
	verbs := p.Verbs()
	if slices.Contains(verbs, verb) {
		return nil
	}
	names := make([]string, 0, len(verbs))
	for _, v := range verbs {
		names = append(names, string(v))
	}
	hint, hintZh := "ask somebody who may", "请由有权限的人操作"
	if len(names) > 0 {
		hint, hintZh = "this role may ask for "+strings.Join(names, ", "), "该角色可使用："+strings.Join(names, "、")
	}
	return &protocol.Error{Code: protocol.CodeNotAllowed,
		Message:   fmt.Sprintf("%s is %s and may not ask for %s", clip(p.Name), article(p.Role), clip(string(verb))),
		MessageZh: fmt.Sprintf("用户 %s 的角色是 %s，不能使用 %s", clip(p.Name), p.Role, clip(string(verb))),
		Hint:      hint,
		HintZh:    hintZh}
}

func article(r Role) string {
	if strings.ContainsAny(string(r[:min(len(r), 1)]), "aeiou") {
		return "an " + string(r)
	}
	return "a " + string(r)
}
