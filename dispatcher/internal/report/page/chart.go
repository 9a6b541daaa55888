package page

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/dispatcher/internal/report/words"
	"muster/internal/protocol"
)

const (
	// inTime and afterwards are how many bars stand before the barrier and behind it.
	inTime     = 60
	afterwards = 20
	// chartHeight is of the drawing, in its own units; a bar is one wide.
	chartHeight = 100
	// barWidth leaves a gap to the next.
	barWidth = 0.8
)

// chart is when answers came, against the barrier. It is drawn in two parts with a
// time scale each, since make-up may last a day behind a barrier of minutes.
type chart struct {
	Bars   []bar
	Total  string // the points of how many had come
	Width  int
	Late   bool   // there is a second part
	Until  string // its end
	Each   words.Pair
	Detail words.Pair
}

type bar struct {
	X, Y, W, H string
	Class      string
}

// drawn draws answers by their milliseconds since the run was made, in order.
func drawn(head *protocol.ReportHead, ms []int64) chart {
	barrier := head.BarrierAt.Sub(head.CreatedAt.Time).Milliseconds()
	onTime, _ := slices.BinarySearch(ms, barrier+1)
	end := max(head.AsOf.Sub(head.CreatedAt.Time).Milliseconds(), barrier)
	if len(ms) > 0 {
		end = max(end, ms[len(ms)-1])
	}
	c := chart{Width: inTime, Late: onTime < len(ms), Until: moment(protocol.At(head.CreatedAt.Add(time.Duration(end)*time.Millisecond)), head.AsOf.Location())}
	bins := binned(ms[:onTime], 0, barrier, inTime)
	if c.Late {
		c.Width += afterwards
		bins = append(bins, binned(ms[onTime:], barrier, end, afterwards)...)
	}
	most := slices.Max(bins)
	var total strings.Builder
	sum := 0
	for i, n := range bins {
		class := "arrived"
		if i >= inTime {
			class = "late"
		}
		height := chartHeight * float64(n) / float64(max(most, 1))
		if n > 0 {
			c.Bars = append(c.Bars, bar{decimal(float64(i) + (1-barWidth)/2), decimal(chartHeight - height), decimal(barWidth), decimal(height), class})
		}
		sum += n
		fmt.Fprintf(&total, "%d,%s ", i+1, decimal(chartHeight-chartHeight*float64(sum)/float64(max(head.Targets, 1))))
	}
	c.Total = fmt.Sprintf("0,%d %s", chartHeight, strings.TrimSpace(total.String()))
	c.Each, c.Detail = told(ms[:onTime], len(ms)-onTime, head.Targets, barrier)
	if most > 0 {
		c.Each.Zh += "，最高 " + words.Count(most) + " 家"
		c.Each.En += ", the highest " + words.Count(most)
	}
	if c.Late {
		c.Each.Zh += "，截止后另有刻度"
		c.Each.En += ", another scale behind the barrier"
	}
	c.Each.Zh += "；折线为累计应答。"
	c.Each.En += "; the line is how many had come."
	return c
}

func binned(ms []int64, from, to int64, parts int) []int {
	bins := make([]int, parts)
	for _, at := range ms {
		i := int((at - from) * int64(parts) / max(to-from, 1))
		bins[min(max(i, 0), parts-1)]++
	}
	return bins
}

// told says the same in words, for whoever cannot see the drawing.
func told(onTime []int64, late, targets int, barrier int64) (each, detail words.Pair) {
	each = words.Pair{Zh: "每条 " + seconds(barrier/inTime), En: seconds(barrier/inTime) + " a bar"}
	if len(onTime) == 0 {
		detail = words.Pair{Zh: "截止前没有应答", En: "No answer came before the barrier"}
	} else {
		middle, most := seconds(onTime[(len(onTime)-1)/2]), seconds(onTime[(len(onTime)-1)*95/100])
		detail = words.Pair{
			Zh: fmt.Sprintf("截止前 %s 家中 %s 家应答：一半在 %s 内，95%% 在 %s 内", words.Count(targets), words.Count(len(onTime)), middle, most),
			En: fmt.Sprintf("%s of %s answered before the barrier: half within %s, 95%% within %s", words.Count(len(onTime)), words.Count(targets), middle, most)}
	}
	if late > 0 {
		detail.Zh += fmt.Sprintf("；截止后补传 %s 家", words.Count(late))
		detail.En += fmt.Sprintf("; %s came late", words.Count(late))
	}
	detail.Zh += "。"
	detail.En += "."
	return each, detail
}

func seconds(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d < 10*time.Second {
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	if d < 10*time.Minute {
		return strconv.FormatFloat(d.Seconds(), 'f', 0, 64) + " s"
	}
	return strconv.FormatFloat(d.Minutes(), 'f', 0, 64) + " min"
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) }
