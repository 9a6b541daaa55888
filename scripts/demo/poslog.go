package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"
)

// style is how a point-of-sale program writes a line.
type style int

const (
	log4j     style = iota // 2026-09-17 08:30:00,123 INFO  [till-2] ...
	bracketed              // [2026-09-17 08:30:00.123] [INFO] ...
	iso                    // 2026-09-17T08:30:00.123+08:00 INFO ...
	syslog                 // Sep 17 08:30:00 till-2 posd[812]: INFO ...
)

// line is one log line before it is encoded.
type line struct {
	at    time.Time
	level string
	text  string
}

func (l line) format(s style) string {
	switch s {
	case bracketed:
		return l.at.Format("[2006-01-02 15:04:05.000] [") + l.level + "] " + l.text
	case iso:
		return l.at.Format("2006-01-02T15:04:05.000-07:00 ") + l.level + " " + l.text
	case syslog:
		return l.at.Format("Jan _2 15:04:05") + " till-2 posd[812]: " + l.level + " " + l.text
	case log4j:
	}
	return l.at.Format("2006-01-02 15:04:05,000 ") + fmt.Sprintf("%-5s", l.level) + " [till-2] " + l.text
}

// traditional writes the shop's words in the script that its encoding has.
func (s shop) traditional() bool { return s.encoding == "big5" }

// trading returns the lines of two and a half days that end now: the day
// before yesterday, yesterday, and today so far. One line stands at the very
// first moment of yesterday and one at the first of today, since a half-open
// day must have the one and not the other.
func (s shop) trading(now, from, to time.Time) []line {
	dice := rand.New(rand.NewPCG(20260917, s.seed()))
	var lines []line
	for day := from.AddDate(0, 0, -1); day.Before(now); day = day.AddDate(0, 0, 1) {
		lines = append(lines, line{day, "INFO", s.words("日切完成，新营业日开始", "日切完成，新營業日開始")})
		opens, closes := day.Add(8*time.Hour+30*time.Minute), day.Add(22*time.Hour)
		for at := opens; at.Before(closes) && at.Before(now); at = at.Add(time.Duration(8+dice.IntN(50)) * time.Second) {
			at = at.Add(time.Duration(dice.IntN(1000)) * time.Millisecond).Truncate(time.Millisecond)
			lines = append(lines, s.event(at, dice))
		}
	}
	for len(lines) > 0 && lines[len(lines)-1].at.After(now) {
		lines = lines[:len(lines)-1]
	}
	return lines
}

func (s shop) seed() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.id)) // a hash takes every byte
	return h.Sum64()
}

func (s shop) words(simplified, traditional string) string {
	if s.traditional() {
		return traditional
	}
	return simplified
}

func (s shop) event(at time.Time, dice *rand.Rand) line {
	receipt := fmt.Sprintf("%s%06d", at.Format("20060102"), dice.IntN(1_000_000))
	switch n := dice.IntN(1000); {
	case n < 6:
		return line{at, "ERROR", fmt.Sprintf(s.words("支付网关超时 单号=%s 耗时=%dms", "支付閘道逾時 單號=%s 耗時=%dms"), receipt, 5000+dice.IntN(3000))}
	case n < 9:
		return line{at, "ERROR", fmt.Sprintf(s.words("打印机缺纸 端口=COM%d", "印表機缺紙 連接埠=COM%d"), 1+dice.IntN(4))}
	case n < 11:
		return line{at, "ERROR", fmt.Sprintf(s.words("库存同步失败 商品=%d 原因=连接被重置", "庫存同步失敗 商品=%d 原因=連線被重設"), 690000+dice.IntN(9999))}
	case n < 40:
		return line{at, "WARN", fmt.Sprintf(s.words("扫码枪重试 次数=%d", "掃描槍重試 次數=%d"), 1+dice.IntN(3))}
	case n < 120:
		return line{at, "INFO", s.words("会员识别成功 等级=金卡", "會員識別成功 等級=金卡")}
	default:
		way := []string{s.words("微信", "街口"), s.words("支付宝", "悠遊卡"), s.words("现金", "現金"), s.words("银行卡", "信用卡")}[dice.IntN(4)]
		return line{at, "INFO", fmt.Sprintf(s.words("交易完成 单号=%s 实收=%d.%02d 支付=%s", "交易完成 單號=%s 實收=%d.%02d 支付=%s"),
			receipt, 5+dice.IntN(300), dice.IntN(100), way)}
	}
}

// text joins lines as the shop's program writes them; Windows boxes end lines
// with CR LF, and none of them ends the last line of a live file.
func (s shop) text(lines []line) string {
	end := "\n"
	if s.encoding == "gbk" || s.encoding == "utf-16le" {
		end = "\r\n"
	}
	formatted := make([]string, len(lines))
	for i, l := range lines {
		formatted[i] = l.format(s.style)
	}
	return strings.Join(formatted, end)
}
