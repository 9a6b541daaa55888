package config

import (
	"net"
	"path/filepath"

	"muster/broker/server"
	"muster/dispatcher/internal/identity"
	"muster/internal/settings"
)

// useIdentity fills in, from the identity folder, what the secure listeners of
// the embedded broker leave out.
func (c *Config) useIdentity() {
	if c.Identity.Folder == "" || c.Transport != TransportEmbedded {
		return
	}
	for _, l := range []*server.ListenerConfig{&c.Broker.Listeners.TLS, &c.Broker.Listeners.WS} {
		plain := l == &c.Broker.Listeners.WS && l.CertFile == ""
		if l.Address == "" || plain {
			continue
		}
		if l.CertFile == "" && l.KeyFile == "" {
			l.CertFile, l.KeyFile = filepath.Join(c.Identity.Folder, identity.FileServer), filepath.Join(c.Identity.Folder, identity.FileServerKey)
		}
		if l.ClientCAFile == "" {
			l.ClientCAFile = filepath.Join(c.Identity.Folder, identity.FileAuthority)
		}
		if l.CRLFile == "" {
			l.CRLFile = filepath.Join(c.Identity.Folder, identity.FileRevoked)
		}
	}
}

// checkPorts refuses two listeners on one port; those of the broker among themselves
// it looks at itself.
func (c Config) checkPorts(file *settings.File) error {
	taken := []struct{ key, address string }{{"enrolment.address", c.Enrolment.Address}}
	if c.Transport == TransportEmbedded {
		for _, name := range server.ListenerNames() {
			taken = append(taken, struct{ key, address string }{"broker.listeners." + name + ".address", c.Broker.Listeners.Named(name).Address})
		}
	}
	for i, one := range taken {
		switch {
		case settings.Collide(one.address, c.Admin.Address):
			return file.Errorf("$.admin.address", "%q is where %s listens: choose another port", c.Admin.Address, one.key)
		case i > 0 && settings.Collide(one.address, c.Enrolment.Address):
			return file.Errorf("$.enrolment.address", "%q is where %s listens: choose another port", c.Enrolment.Address, one.key)
		}
	}
	return nil
}

func (c Config) checkTrust(file *settings.File) error {
	if c.Identity.BrokerFolder != "" && c.Identity.Folder == "" {
		return file.Errorf("$.identity.broker_folder", "needs identity.folder: there is nothing to copy without it")
	}
	if address := c.Enrolment.Address; address != "" {
		if _, _, err := settings.Address(address); err != nil {
			return file.Errorf("$.enrolment.address", "%w", err)
		}
		if c.Identity.Folder == "" {
			return file.Errorf("$.enrolment.address", "needs identity.folder: without an identity headquarters has no certificates to give; dispatcher init makes one")
		}
	}
	if c.Enrolment.URL != "" {
		if _, err := settings.URL(c.Enrolment.URL, "https"); err != nil {
			return file.Errorf("$.enrolment.url", "%w", err)
		}
	}
	host, _, err := settings.Address(c.Admin.Address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return file.Errorf("$.admin.address", "%q is not a loopback host:port such as 127.0.0.1:0", c.Admin.Address)
	}
	if err := c.checkPorts(file); err != nil {
		return err
	}
	if c.Approval.OverStores < 0 || c.Approval.OverStores > 1_000_000 {
		return file.Errorf("$.approval.over_stores", "%d is out of range; write 0 (off) to 1000000", c.Approval.OverStores)
	}
	if c.Identity.Folder != "" && c.Transport == TransportEmbedded && c.Broker.Anonymous {
		return file.Errorf("$.broker.anonymous", "true contradicts identity.folder: whoever connects must prove who they are")
	}
	return nil
}
