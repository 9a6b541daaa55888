package people

import (
	"fmt"
	"slices"
	"strings"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

// maxNamed bounds what a refusal names.
const maxNamed = 10

// Everywhere reports whether the person may order at every store: jobs and
// stores bind technicians alone.
func (p Person) Everywhere() bool { return p.Role != Technician || p.Stores.All }

// own reports whether a store is one that the person may order at.
func (p Person) own(place store.Place) bool {
	switch {
	case p.Everywhere():
		return true
	case p.Stores.Labels != "":
		return p.wanted.Matches(place.Labels)
	}
	return slices.Contains(p.Stores.Stores, place.StoreID)
}

// OwnIDs lists the stores that the person may order at, each once. Ids of an
// entry count although their stores are no longer in the register.
func (p Person) OwnIDs(places []store.Place) []string {
	if !p.Everywhere() && p.Stores.Labels == "" {
		return slices.Compact(slices.Sorted(slices.Values(p.Stores.Stores)))
	}
	var ids []string
	for _, place := range places {
		if p.own(place) {
			ids = append(ids, place.StoreID)
		}
	}
	return ids
}

// MayOrder refuses with NOT_ALLOWED a job that is not the person's.
func (p Person) MayOrder(jobName string) error {
	if p.Role != Technician || p.Jobs == nil || slices.Contains(p.Jobs, jobName) {
		return nil
	}
	hint, hintZh := "no job may be ordered by this user", "该用户不能下发任何作业"
	if len(p.Jobs) > 0 {
		hint = "this user may order: " + clip(strings.Join(p.Jobs, ", "))
		hintZh = "该用户可下发：" + clip(strings.Join(p.Jobs, "、"))
	}
	return &protocol.Error{Code: protocol.CodeNotAllowed, Path: "/job",
		Message:   fmt.Sprintf("%s may not order the job %s", p.Name, clip(jobName)),
		MessageZh: fmt.Sprintf("用户 %s 不能下发作业 %s", p.Name, clip(jobName)),
		Hint:      hint,
		HintZh:    hintZh}
}

// MayOrderAt refuses with NOT_ALLOWED targets of which some are not the
// person's, and names the first of them: a request is done whole or not at all.
func (p Person) MayOrderAt(targets []store.Place) error {
	if p.Everywhere() {
		return nil
	}
	own := p.owner()
	var foreign []string
	for _, place := range targets {
		if !own(place) {
			foreign = append(foreign, place.StoreID)
		}
	}
	return p.refuse(foreign)
}

// owner is own for many stores.
func (p Person) owner() func(store.Place) bool {
	if p.Stores.Labels != "" {
		return p.own
	}
	listed := make(map[string]bool, len(p.Stores.Stores))
	for _, id := range p.Stores.Stores {
		listed[id] = true
	}
	return func(place store.Place) bool { return listed[place.StoreID] }
}

// refuse names stores which are not the person's; nil when there are none.
func (p Person) refuse(foreign []string) error {
	if len(foreign) == 0 {
		return nil
	}
	list := strings.Join(foreign[:min(len(foreign), maxNamed)], ", ")
	more, moreZh := "", ""
	if rest := len(foreign) - maxNamed; rest > 0 {
		more, moreZh = fmt.Sprintf(" and %d more", rest), fmt.Sprintf(" 等 %d 家", len(foreign))
	}
	scope, scopeZh := p.scope()
	return &protocol.Error{Code: protocol.CodeNotAllowed, Path: "/stores",
		Message:   fmt.Sprintf("not a store of %s: %s%s; nothing was done", p.Name, list, more),
		MessageZh: fmt.Sprintf("以下门店不在用户 %s 的范围内：%s%s，未执行任何操作", p.Name, list, moreZh),
		Hint:      "the stores of this user are " + scope + "; leave the others out",
		HintZh:    "该用户的门店范围为 " + scopeZh + "；请去掉其余门店"}
}

// scope says in words which stores are the person's, in English and in Chinese.
func (p Person) scope() (en, zh string) {
	switch {
	case p.Everywhere():
		return "all", "全部"
	case p.Stores.Labels != "":
		labels := fmt.Sprintf(`{"labels":%q}`, clip(p.Stores.Labels))
		return labels, labels
	case len(p.Stores.Stores) == 0:
		return "none", "无"
	}
	list := p.Stores.Stores[:min(len(p.Stores.Stores), maxNamed)]
	en, zh = strings.Join(list, ", "), strings.Join(list, "、")
	if rest := len(p.Stores.Stores) - len(list); rest > 0 {
		return fmt.Sprintf("%s and %d more", en, rest), fmt.Sprintf("%s 等 %d 家", zh, len(p.Stores.Stores))
	}
	return en, zh
}
