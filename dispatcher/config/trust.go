package config

import (
	"net"
	"net/url"
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

func (c Config) checkTrust(file *settings.File) error {
	if c.Identity.BrokerFolder != "" && c.Identity.Folder == "" {
		return file.Errorf("$.identity.broker_folder", "needs identity.folder: there is nothing to copy without it")
	}
	if c.Identity.BrokerFolder != "" && filepath.Clean(c.Identity.BrokerFolder) == filepath.Clean(c.Identity.Folder) {
		return file.Errorf("$.identity.broker_folder", "must be another folder than identity.folder, which holds the authority's key")
	}
	if address := c.Enrolment.Address; address != "" {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return file.Errorf("$.enrolment.address", "%q is not host:port", address)
		}
		if c.Identity.Folder == "" {
			return file.Errorf("$.enrolment.address", "needs identity.folder: without an identity headquarters has no certificates to give; dispatcher init makes one")
		}
	}
	if u, err := url.Parse(c.Enrolment.URL); c.Enrolment.URL != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		return file.Errorf("$.enrolment.url", "%q is no address such as https://hq.example.com:8443", c.Enrolment.URL)
	}
	host, _, err := net.SplitHostPort(c.Admin.Address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return file.Errorf("$.admin.address", "%q is not a loopback host:port such as 127.0.0.1:0", c.Admin.Address)
	}
	if c.Approval.OverStores < 0 {
		return file.Errorf("$.approval.over_stores", "%d is out of range; write 0 (off) or more", c.Approval.OverStores)
	}
	if c.Identity.Folder != "" && c.Transport == TransportEmbedded && c.Broker.Anonymous {
		return file.Errorf("$.broker.anonymous", "true contradicts identity.folder: whoever connects must prove who they are")
	}
	return nil
}
