package access

import "strings"

func anyCovers(patterns []pattern, id Identity, filter string) bool {
	for _, p := range patterns {
		if covers(p, id, filter) {
			return true
		}
	}
	return false
}

// covers reports whether every topic that filter matches is matched by the
// pattern too. The filter must be well formed.
func covers(p pattern, id Identity, filter string) bool {
	rest, more := filter, true
	for _, want := range p {
		if want == "#" {
			return true // "a/#" matches "a" too, so an exhausted filter is covered
		}
		if !more {
			return false
		}
		var level string
		level, rest, more = strings.Cut(rest, "/")
		if level == "#" || !coversLevel(want, id, level) {
			return false
		}
	}
	return !more
}

func coversLevel(want string, id Identity, level string) bool {
	switch want {
	case "+":
		return true
	case "{store}":
		return id.Store != "" && level == id.Store
	case "{terminal}":
		return id.Terminal != "" && level == id.Terminal
	case "{user}":
		return id.Name != "" && level == id.Name
	}
	return level == want
}

// wellFormed reports whether wildcards stand alone in their level and "#" only
// at the end (MQTT 5, 4.7.1).
func wellFormed(filter string) bool {
	if filter == "" {
		return false
	}
	for rest, more := filter, true; more; {
		var level string
		level, rest, more = strings.Cut(rest, "/")
		switch {
		case level == "#" && more:
			return false
		case level == "#", level == "+":
		case strings.ContainsAny(level, "+#"):
			return false
		}
	}
	return true
}

// unshare strips "$share/{group}/" (MQTT 5, 4.8.2), in any case, because the
// broker underneath ignores case there.
func unshare(filter string) (string, bool) {
	prefix, rest, more := strings.Cut(filter, "/")
	if !strings.EqualFold(prefix, "$share") {
		return filter, true
	}
	if !more {
		return "", false
	}
	group, inner, more := strings.Cut(rest, "/")
	if !more || group == "" || strings.ContainsAny(group, "+#") {
		return "", false
	}
	return inner, true
}
