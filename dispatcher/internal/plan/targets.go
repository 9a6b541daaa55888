package plan

import (
	"fmt"
	"slices"
	"strings"

	"muster/dispatcher/internal/selector"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

// asked and askedZh are who can look into the register, which no request shows.
const (
	asked   = "headquarters' operator lists them with: dispatcher stores list"
	askedZh = "也可请总部管理员执行 dispatcher stores list 查询"
)

// maxNamed bounds the unknown stores that a refusal names.
const maxNamed = 10

// Resolve returns the places that the targets mean, each once and ordered by
// store id. It fails with a *protocol.Error at /stores: NO_TARGETS,
// UNKNOWN_STORE, SCHEMA for a bad label expression, TOO_LARGE beyond
// MaxTargets.
func Resolve(targets protocol.Targets, places []store.Place) ([]store.Place, error) {
	var (
		chosen []store.Place
		err    error
	)
	switch {
	case targets.All:
		chosen = slices.Clone(places)
	case targets.Labels != "":
		chosen, err = byLabels(targets.Labels, places)
	case len(targets.AllBut) > 0:
		chosen, err = allBut(targets.AllBut, places)
	default:
		chosen, err = byID(targets.Stores, places)
	}
	if err != nil {
		return nil, err
	}
	if len(chosen) == 0 {
		return nil, noTargets(targets)
	}
	if len(chosen) > MaxTargets {
		return nil, &protocol.Error{Code: protocol.CodeTooLarge, Path: "/stores",
			Message:   fmt.Sprintf("the run would have %d stores; at most %d are taken", len(chosen), MaxTargets),
			MessageZh: fmt.Sprintf("门店数为 %d，最多 %d", len(chosen), MaxTargets),
			Hint:      "split it into several runs, by label for example",
			HintZh:    "请拆成几个批次，例如按标签划分"}
	}
	slices.SortFunc(chosen, func(a, b store.Place) int { return strings.Compare(a.StoreID, b.StoreID) })
	return chosen, nil
}

func noTargets(targets protocol.Targets) *protocol.Error {
	e := &protocol.Error{Code: protocol.CodeNoTargets, Path: "/stores"}
	switch {
	case targets.All:
		e.Message, e.MessageZh = "the register holds no store", "门店名册为空"
		e.Hint, e.HintZh = "headquarters' operator has to add stores", "请联系总部管理员添加门店"
	case targets.Labels != "":
		e.Message = fmt.Sprintf("no store has the labels %q", clip(targets.Labels))
		e.MessageZh = fmt.Sprintf("没有门店符合标签条件 %q", clip(targets.Labels))
		e.Hint, e.HintZh = "check the labels letter by letter; "+asked, "请逐字核对标签；"+askedZh
	case len(targets.AllBut) > 0:
		e.Message, e.MessageZh = "no store is left: the list after allBut names every one", "没有剩余门店：allBut 列出了全部门店"
		e.Hint, e.HintZh = "name fewer stores", "请少列几家门店"
	default:
		e.Message, e.MessageZh = "the list of stores is empty", "门店列表为空"
		e.Hint, e.HintZh = `name stores, or write "stores":"all"`, `请列出门店，或写 "stores":"all"`
	}
	return e
}

func byID(ids []string, places []store.Place) ([]store.Place, error) {
	known := make(map[string]store.Place, len(places))
	for _, place := range places {
		known[place.StoreID] = place
	}
	var (
		chosen  = make([]store.Place, 0, len(ids))
		seen    = make(map[string]bool, len(ids))
		unknown []string
	)
	for _, id := range ids {
		if seen[id] {
			continue
		}
		seen[id] = true
		if place, ok := known[id]; ok {
			chosen = append(chosen, place)
		} else {
			unknown = append(unknown, id)
		}
	}
	if len(unknown) > 0 {
		return nil, unknownStores(unknown, places)
	}
	return chosen, nil
}

// allBut leaves out the named stores, each of which must be known: a slip of the
// pen would order at the very store that was to be left alone.
func allBut(ids []string, places []store.Place) ([]store.Place, error) {
	named, err := byID(ids, places)
	if err != nil {
		return nil, err
	}
	out := make(map[string]bool, len(named))
	for _, place := range named {
		out[place.StoreID] = true
	}
	chosen := make([]store.Place, 0, len(places)-len(named))
	for _, place := range places {
		if !out[place.StoreID] {
			chosen = append(chosen, place)
		}
	}
	return chosen, nil
}

func unknownStores(unknown []string, places []store.Place) *protocol.Error {
	named := make([]string, 0, maxNamed)
	for _, id := range unknown[:min(len(unknown), maxNamed)] {
		named = append(named, clip(id))
	}
	list, more, moreZh := strings.Join(named, ", "), "", ""
	if rest := len(unknown) - len(named); rest > 0 {
		more, moreZh = fmt.Sprintf(" and %d more", rest), fmt.Sprintf(" 等 %d 家", len(unknown))
	}
	hint, hintZh := "ids are compared exactly, and reports have them; "+asked, "编号须完全一致，可查阅报告；"+askedZh
	for _, place := range places {
		if place.StoreID != unknown[0] && strings.EqualFold(place.StoreID, strings.TrimSpace(unknown[0])) {
			hint = fmt.Sprintf("ids are compared exactly; did you mean %s?", place.StoreID)
			hintZh = fmt.Sprintf("编号须完全一致；是否指 %s？", place.StoreID)
			break
		}
	}
	return &protocol.Error{Code: protocol.CodeUnknownStore, Path: "/stores",
		Message:   "no such store: " + list + more,
		MessageZh: "未知门店：" + list + moreZh,
		Hint:      hint,
		HintZh:    hintZh}
}

func byLabels(expression string, places []store.Place) ([]store.Place, error) {
	wanted, err := selector.Parse(expression)
	if err != nil {
		return nil, err
	}
	var chosen []store.Place
	for _, place := range places {
		if wanted.Matches(place.Labels) {
			chosen = append(chosen, place)
		}
	}
	return chosen, nil
}

func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
