package checker

import (
	"muster/internal/protocol"
	"muster/tests/chaos/history"
)

// walls: a terminal hears of its own store alone, a person of their own
// requests.
func walls(b *book) {
	for _, l := range b.History {
		if l.Act != history.ActGot {
			continue
		}
		b.weigh("messages", 1)
		addr, ok := b.topics.Parse(l.Topic)
		where := Finding{Line: l.Source}
		switch {
		case l.Role == history.RoleAgent && !ok:
			b.broken(where, "the terminal %s got a message on %q, which is no topic of its", l.Who, l.Topic)
		case l.Role == history.RoleAgent && addr.Area == protocol.AreaStores && addr.Store != l.Store:
			b.broken(where, "the terminal %s of store %s got a message of store %s on %q", l.Who, l.Store, addr.Store, l.Topic)
		case l.Role == history.RoleAgent && addr.Area == protocol.AreaStores && addr.Terminal != "" && addr.Terminal != l.Terminal:
			b.broken(where, "the terminal %s got a message of terminal %s on %q", l.Who, addr.Terminal, l.Topic)
		case l.Role == history.RoleAgent && !ownArea(addr.Area):
			b.broken(where, "the terminal %s got a message on %q, which is no topic of its", l.Who, l.Topic)
		case l.Role == history.RoleClient && addr.Area == protocol.AreaReply && addr.User != l.Who:
			b.broken(where, "%s got a reply to %s on %q", l.Who, addr.User, l.Topic)
		}
	}
}

// ownArea are the branches that a terminal may read.
func ownArea(area protocol.Area) bool {
	return area == protocol.AreaStores || area == protocol.AreaInfo || area == protocol.AreaTrust
}
