package settings

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Address reads where to listen: host:port, the port a number and 0 for any. An
// empty host is every interface.
func Address(text string) (host string, port int, err error) {
	host, digits, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, fmt.Errorf("%q is not host:port; write one such as 127.0.0.1:1883", text)
	}
	number, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("%q has no port from 0 (any) to 65535", text)
	}
	if host != "" && !isHost(host) {
		return "", 0, fmt.Errorf("%q begins with neither an IP address nor the name of a host", text)
	}
	return host, int(number), nil
}

// URL reads where to connect to. Its scheme must be one of schemes, of which the last
// is the example that errors give. It may hold no user, no password, no query and,
// but for those over HTTP, no path. A port is 1 to 65535, and may be absent.
func URL(text string, schemes ...string) (*url.URL, error) {
	u, err := url.Parse(text)
	example := schemes[len(schemes)-1] + "://hq.example"
	if err != nil || !slices.Contains(schemes, u.Scheme) || u.Hostname() == "" {
		shown := text
		if err == nil {
			shown = u.Redacted()
		} else if strings.Contains(text, "@") {
			shown = "what stands there" // it may hold a password
		}
		return nil, fmt.Errorf("must be a URL such as %s with scheme %s, not %q", example, strings.Join(schemes, ", "), shown)
	}
	overHTTP := u.Scheme == "ws" || u.Scheme == "wss" || u.Scheme == "https"
	switch number, err := strconv.ParseUint(u.Port(), 10, 16); {
	case u.User != nil:
		return nil, fmt.Errorf("must hold no password and no user: they have keys of their own")
	case strings.HasSuffix(u.Host, ":"), u.Port() != "" && (err != nil || number == 0):
		return nil, fmt.Errorf("%q has no port from 1 to 65535; leave it out for the usual one", text)
	case !isHost(u.Hostname()):
		return nil, fmt.Errorf("%q names neither an IP address nor a host", text)
	case u.RawQuery != "" || u.Fragment != "" || !overHTTP && strings.Trim(u.Path, "/") != "":
		return nil, fmt.Errorf("%q says more than where; write %s://%s", text, u.Scheme, u.Host)
	}
	return u, nil
}

// maxHost bounds the name of a host, and maxLabel each part of it (RFC 1035,
// section 2.3.4).
const maxHost, maxLabel = 253, 63

// isHost takes IP addresses and names of ASCII letters, digits, - and _. What looks
// like an IP address and is none is no name.
func isHost(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	labels := strings.Split(strings.TrimSuffix(text, "."), ".")
	for _, label := range labels {
		odd := strings.ContainsFunc(label, func(r rune) bool {
			return (r|0x20 < 'a' || r|0x20 > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
		})
		if label == "" || len(label) > maxLabel || odd {
			return false
		}
	}
	_, err := strconv.Atoi(labels[len(labels)-1])
	return err != nil && len(text) <= maxHost
}

// Loopback says whether a host is this machine alone.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Collide says whether two addresses cannot both be listened on: they have one port,
// and one host or every interface.
func Collide(one, other string) bool {
	hostOne, portOne, err := Address(one)
	hostOther, portOther, errOther := Address(other)
	if err != nil || errOther != nil || portOne == 0 || portOne != portOther {
		return false
	}
	return plainHost(hostOne) == plainHost(hostOther) || Everywhere(hostOne) || Everywhere(hostOther)
}

func plainHost(host string) string {
	if host == "localhost" {
		return "127.0.0.1"
	}
	return strings.ToLower(host)
}

// Everywhere says whether a host is every interface of this machine.
func Everywhere(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}
