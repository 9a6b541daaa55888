package main

import "time"

// part is what a shop plays in the demo.
type part string

const (
	// well: does as it should.
	well part = "well"
	// outdated: its external executor answers with field names of long ago.
	outdated part = "outdated"
	// crashing: its agent is killed in the middle of the work, and comes back.
	crashing part = "crashing"
	// latecomer: starts only when the first report is out.
	latecomer part = "latecomer"
	// absent: never starts.
	absent part = "absent"
)

// shop is one store with its terminal.
type shop struct {
	id, name string
	zone     string // IANA
	region   string
	encoding string // of its logs: utf-8, utf-8-bom, gbk, utf-16le, big5
	style    style  // of its log lines
	part     part
}

// shops are twelve stores. Ids that look like numbers, and names in two
// scripts, are there on purpose: both must come back as they are.
func shops() []shop {
	return []shop{
		{"SH_0312", "上海南京西路店", "Asia/Shanghai", "east", "gbk", log4j, well},
		{"SH_0313", "上海静安寺店", "Asia/Shanghai", "east", "utf-8", bracketed, well},
		{"BJ_0007", "北京王府井店", "Asia/Shanghai", "north", "utf-16le", bracketed, well},
		{"007", "广州天河城店", "Asia/Shanghai", "south", "utf-8", iso, well},
		{"1E5", "成都春熙路店", "Asia/Shanghai", "west", "gbk", bracketed, well},
		{"06-8108", "乌鲁木齐友好路店", "Asia/Urumqi", "west", "utf-8-bom", log4j, well},
		{"TPE_0021", "台北忠孝復興店", "Asia/Taipei", "taiwan", "big5", log4j, well},
		{"LAX_0002", "洛杉矶圣盖博店", "America/Los_Angeles", "overseas", "utf-8", syslog, well},
		{"WH_0105", "武汉江汉路店", "Asia/Shanghai", "central", "gbk", log4j, outdated},
		{"XA_0044", "西安钟楼店", "Asia/Shanghai", "central", "utf-8", log4j, crashing},
		{"HK_0030", "香港銅鑼灣店", "Asia/Hong_Kong", "south", "big5", bracketed, latecomer},
		{"SZ_0201", "深圳华强北店", "Asia/Shanghai", "south", "gbk", iso, absent},
	}
}

// count is how many shops play one of the parts.
func count(all []shop, parts ...part) int {
	n := 0
	for _, s := range all {
		for _, p := range parts {
			if s.part == p {
				n++
			}
		}
	}
	return n
}

// yesterday is the business day before now at the shop, from midnight to
// midnight there.
func (s shop) yesterday(now time.Time) (from, to time.Time, err error) {
	loc, err := time.LoadLocation(s.zone)
	if err != nil {
		return time.Time{}, time.Time{}, err
	}
	y, m, d := now.In(loc).Date()
	return time.Date(y, m, d-1, 0, 0, 0, 0, loc), time.Date(y, m, d, 0, 0, 0, 0, loc), nil
}

// midnightMargin is longer than the time between the furnishing of the shops
// and the order, which must agree on what "yesterday" is.
const midnightMargin = 15 * time.Second

// untilClear is how long to wait so that midnight strikes at none of the shops
// between their furnishing and the order; mostly 0.
func untilClear(all []shop, now time.Time) (time.Duration, error) {
	var wait time.Duration
	for _, s := range all {
		_, today, err := s.yesterday(now)
		if err != nil {
			return 0, err
		}
		if left := today.AddDate(0, 0, 1).Sub(now); left <= midnightMargin {
			wait = max(wait, left+time.Millisecond)
		}
	}
	return wait, nil
}
