// Package alarm knows the kinds of alarms: what to do about each, and which are told
// to be over; and it keeps those that are not over across a restart, so that an alarm
// of one life of headquarters is ended in the next. It raises none by itself.
package alarm

import (
	"maps"
	"slices"
)

// kind is what is known of a kind of alarm.
type kind struct {
	hint string // what to do
	ends bool   // another word follows when it is over
}

// kinds holds every kind that headquarters raises.
func kinds() map[string]kind {
	return map[string]kind{
		"message_panicked":     {"read headquarters' log for the stack, and report it; the same request may be sent again", false},
		"step_panicked":        {"read headquarters' log for the stack, and report it; it is tried again by itself", false},
		"message_quarantined":  {"read the file that the message names and the log, mend the fault; sent again, the message is tried anew", false},
		"result_quarantined":   {"read the answer in the file that the message names, mend the fault, repeat the run for the store", false},
		"wrong_offer":          {"see at the broker who may publish below stores/; only headquarters may", false},
		"client_banned":        {"look for two machines with one identity, or a program that starts over and over, and stop it", true},
		"barrier_stuck":        {"read the reason; nothing is lost, and it is tried again every minute: when it stays, report it with headquarters' log", true},
		"report_not_published": {"see that the reports folder is there, may be written, has room, and that no file stands where a folder belongs; it is tried again every minute", true},
		"summary_not_published": {"see that the broker runs and lets headquarters publish; the report's files are there, " +
			"and it is tried again every minute", true},
		"database_gone": {"stop whatever moves or removes files of the data folder, put them back or restore what was saved: the message names the file " +
			"and the command", false},
		"database_damaged":   {"look at the disk, then stop headquarters and restore the last backup when it stays", true},
		"disk_full":          {"make room on the disk of the data folder; nothing is taken in until then, and nothing that was receipted is lost", true},
		"clock_stepped":      {"keep the machine's clock by NTP; do not restart headquarters on a wrong clock while a run is before its barrier", true},
		"signing_key_early":  {"set the machine's clock right, or put ca.key back into the identity folder", false},
		"reload_refused":     {"mend what the message names, look with dispatcher check-config, then reload once more", true},
		"secret_in_result":   {"change the secret, because it has crossed the wire, and add its form to the redaction of the terminal", false},
		"forged_message":     {"find out who speaks for the terminal; if it is its own machine, enrol it again with --force", false},
		"duplicate_terminal": {"find the two machines, and enrol one of them as another terminal; a restored copy of a disk counts as one", true},
	}
}

// Kinds lists every kind, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds())) }

// Hint says what to do about a kind, "" for one that is not known.
func Hint(of string) string { return kinds()[of].hint }

// ends says whether an alarm of the kind is told to be over.
func ends(of string) bool { return kinds()[of].ends }
