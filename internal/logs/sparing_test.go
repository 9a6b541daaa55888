package logs_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/logs"
)

var noon = time.Date(2026, 9, 17, 12, 0, 0, 0, time.UTC)

func TestAFloodIsOneLineAMinuteThatSaysHowManyWereLeftOut(t *testing.T) {
	t.Parallel()
	var s logs.Sparing
	for i := range 1000 {
		left, due := s.Due("wang RATE_LIMITED", noon.Add(time.Duration(i)*time.Millisecond))
		if due != (i == 0) || left != 0 {
			t.Fatalf("line %d: %d, %t", i, left, due)
		}
	}
	if left, due := s.Due("li RATE_LIMITED", noon); left != 0 || !due {
		t.Errorf("another key: %d, %t", left, due)
	}
	if _, due := s.Due("wang RATE_LIMITED", noon.Add(time.Minute-time.Millisecond)); due {
		t.Error("told within the minute")
	}
	if left, due := s.Due("wang RATE_LIMITED", noon.Add(time.Minute)); left != 1000 || !due {
		t.Errorf("a minute later: %d, %t", left, due)
	}
	if left, due := s.Due("wang RATE_LIMITED", noon.Add(time.Hour)); left != 0 || !due {
		t.Errorf("an hour later: %d, %t", left, due)
	}
	if _, due := s.Due("wang RATE_LIMITED", noon); !due {
		t.Error("a clock that was set back makes it silent")
	}
}

func TestMadeUpKeysFillNeitherMemoryNorLogAndAreAllCounted(t *testing.T) {
	t.Parallel()
	var s logs.Sparing
	const keys = 5 * logs.MaxKeys
	lines, left := 0, int64(0)
	flood := func(at time.Time) (told int) {
		for i := range keys {
			n, due := s.Due(strings.Repeat("k", i%100)+strconv.Itoa(i), at)
			if left += n; due {
				told++
			}
		}
		lines += told
		return told
	}
	for minute := range 3 {
		if told := flood(noon.Add(time.Duration(minute) * time.Minute)); told > logs.MaxKeys+1 {
			t.Fatalf("%d lines in minute %d", told, minute)
		}
		if s.Remembered() > logs.MaxKeys {
			t.Fatalf("%d remembered", s.Remembered())
		}
	}
	// Keys of later, each alone: they make room, and what is left is told.
	later := noon.Add(time.Hour)
	for i := range logs.MaxKeys + 1 {
		n, due := s.Due("later"+strconv.Itoa(i), later)
		if left += n; due {
			lines++
		}
	}
	n, _ := s.Due("one more", later.Add(time.Second/2))
	left += n
	if total := int64(3*keys + logs.MaxKeys + 2); int64(lines)+left < total-2 || int64(lines)+left > total {
		t.Errorf("%d lines and %d left out of %d", lines, left, total)
	}
}

func TestLongKeysAreBounded(t *testing.T) {
	t.Parallel()
	var s logs.Sparing
	long := strings.Repeat("k", 60_000)
	if _, due := s.Due(long+"a", noon); !due {
		t.Fatal("the first is not told")
	}
	if _, due := s.Due(long+"b", noon); due {
		t.Error("keys of 60 KB are told apart, and so are kept")
	}
}

func TestSparingCountsEveryLineOfMany(t *testing.T) {
	t.Parallel()
	var s logs.Sparing
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				s.Due("one", noon)
			}
		})
	}
	wg.Wait()
	if left, due := s.Due("one", noon.Add(time.Minute)); left != 7999 || !due {
		t.Errorf("%d, %t", left, due)
	}
}
