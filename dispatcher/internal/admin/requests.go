package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"muster/dispatcher/internal/identity"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

const (
	// defaultValid is how long a token waits: an engineer's working day.
	defaultValid       = 24 * time.Hour
	minValid, maxValid = time.Minute, 7 * 24 * time.Hour
)

func (s *Server) enrolToken(r *http.Request, request TokenRequest) (Token, error) {
	ctx, now := r.Context(), s.Now()
	by, err := actor(request.Actor)
	if err != nil {
		return Token{}, err
	}
	if err := s.checkTerminal(ctx, request.Store, request.Terminal); err != nil {
		return Token{}, err
	}
	valid := defaultValid
	if request.ValidSeconds != 0 {
		valid = time.Duration(min(max(request.ValidSeconds, 0), 1e9)) * time.Second
	}
	if valid < minValid || valid > maxValid {
		return Token{}, refused(protocol.CodeSchema, "/validSeconds", "a token is valid for one minute to seven days",
			"令牌有效期须为 1 分钟至 7 天", "leave it out for 24 hours", "省略则为 24 小时")
	}
	token, err := s.Authority.NewToken()
	if err != nil {
		return Token{}, err
	}
	expires := now.Add(valid)
	if err := s.Register.AddEnrolment(ctx, store.Enrolment{TokenSHA256: identity.HashToken(token), StoreID: request.Store,
		TerminalID: request.Terminal, CreatedBy: by, CreatedAt: now, ExpiresAt: expires}); err != nil {
		return Token{}, err
	}
	s.Logger.Info("enrolment token made", "store_id", request.Store, "terminal_id", request.Terminal, "actor", by, "expires_at", expires)
	return Token{Token: token, Store: request.Store, Terminal: request.Terminal, ExpiresAt: protocol.At(expires.UTC()), EnrolmentURL: s.EnrolmentURL}, nil
}

// checkTerminal refuses what would enrol nobody: no identity, ids that are
// none, a store that is not on the list, and a terminal whose id differs from
// another's only in case.
func (s *Server) checkTerminal(ctx context.Context, storeID, terminalID string) error {
	if s.Authority == nil {
		return noIdentity()
	}
	if err := checkIDs(storeID, terminalID); err != nil {
		return err
	}
	places, err := s.Places.ListPlaces(ctx)
	if err != nil {
		return err
	}
	known, alike := false, ""
	for _, p := range places {
		known = known || p.StoreID == storeID
		if strings.EqualFold(p.StoreID, storeID) {
			alike = "; did you mean " + p.StoreID + "?"
		}
	}
	if !known {
		return refused(protocol.CodeUnknownStore, "/store", "store "+storeID+" is not on the list of stores"+alike,
			"门店 "+storeID+" 不在门店名册中", "add it to the file of stores_file, then: dispatcher reload", "请加入 stores_file 所指文件，然后执行 dispatcher reload")
	}
	keys, err := s.Register.ListTerminalKeys(ctx)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if k.StoreID == storeID && k.TerminalID != terminalID && strings.EqualFold(k.TerminalID, terminalID) {
			return refused(protocol.CodeConflict, "/terminal", fmt.Sprintf("terminal %s differs only in case from %s, which is enrolled", terminalID, k.TerminalID),
				"终端 "+terminalID+" 与已注册的 "+k.TerminalID+" 仅大小写不同", "take the same spelling, or another id", "请使用相同写法，或换用其他编号")
		}
	}
	return nil
}

// health answers whether the database can be read and written.
func (s *Server) health(r *http.Request, _ struct{}) (Health, error) {
	if err := s.Healthy(r.Context()); err != nil {
		return Health{}, err
	}
	health := Health{OK: true, Version: s.Version, At: protocol.At(s.Now().UTC())}
	if s.Clock != nil {
		health.Clock = s.Clock()
	}
	if s.Troubles != nil {
		health.Troubles = s.Troubles()
	}
	return health, nil
}

func (s *Server) reload(r *http.Request, _ struct{}) (Reloaded, error) {
	if s.Reload == nil {
		return Reloaded{}, refused(protocol.CodeNotFound, "", "this headquarters cannot read its configuration again", "该总部无法重新加载配置", "start it again instead", "请改为重启总部服务")
	}
	return s.Reload(context.WithoutCancel(r.Context())) // who asks and leaves wants it done
}

func (s *Server) revoke(r *http.Request, request RevokeRequest) (Revocation, error) {
	by, err := actor(request.Actor)
	if err != nil {
		return Revocation{}, err
	}
	if s.Authority == nil {
		return Revocation{}, noIdentity()
	}
	if err := checkIDs(request.Store, request.Terminal); err != nil {
		return Revocation{}, err
	}
	ctx := context.WithoutCancel(r.Context()) // who revokes and leaves wants it done
	s.revoking.Lock()
	defer s.revoking.Unlock()
	keys, err := s.Register.RevokeTerminal(ctx, request.Store, request.Terminal, by, s.Now())
	unknown := errors.Is(err, store.ErrNotFound)
	if err != nil && !unknown {
		return Revocation{}, err
	}
	if unknown { // or it is asked for again, because it failed half-way
		if keys, err = s.Register.ListRevoked(ctx); err != nil {
			return Revocation{}, err
		}
	}
	if s.Revoked != nil && len(keys) > 0 {
		s.Revoked(keys)
	}
	if err := s.writeRevoked(ctx); err != nil { // also when it is asked for again, because this failed
		return Revocation{}, fmt.Errorf("headquarters takes nothing more from terminal %s of store %s, but the broker was not told; revoke it again: %w",
			request.Terminal, request.Store, err)
	}
	if unknown {
		return Revocation{}, refused(protocol.CodeNotFound, "", fmt.Sprintf("terminal %s of store %s has no key and no token that could be revoked", request.Terminal, request.Store),
			"门店 "+request.Store+" 的终端 "+request.Terminal+" 没有可吊销的密钥或令牌", "dispatcher terminals lists them", "用 dispatcher terminals 可列出终端")
	}
	done := Revocation{Store: request.Store, Terminal: request.Terminal, Certificates: []string{}}
	for _, k := range keys {
		done.Certificates = append(done.Certificates, k.Serial)
	}
	s.Logger.Warn("terminal revoked", "store_id", request.Store, "terminal_id", request.Terminal, "actor", by, "certificates", len(keys))
	return done, nil
}

func (s *Server) publishRevoked(ctx context.Context) error {
	if s.Authority == nil {
		return nil
	}
	s.revoking.Lock()
	defer s.revoking.Unlock()
	return s.writeRevoked(ctx)
}

// writeRevoked writes the certificates that are revoked and have not ended by
// themselves.
func (s *Server) writeRevoked(ctx context.Context) error {
	keys, err := s.Register.ListRevoked(ctx)
	if err != nil {
		return err
	}
	now := s.Now()
	var list []identity.Revoked
	for _, k := range keys {
		if now.Before(k.NotAfter) {
			list = append(list, identity.Revoked{Serial: k.Serial, At: k.RevokedAt})
		}
	}
	return s.Authority.WriteCRL(list, now)
}

func (s *Server) rotate(r *http.Request, request RotateRequest) (Rotation, error) {
	by, err := actor(request.Actor)
	if err != nil {
		return Rotation{}, err
	}
	if s.Authority == nil {
		return Rotation{}, noIdentity()
	}
	id, hash, err := s.RequestRotation(r.Context(), by, request.Now)
	return Rotation{ApprovalID: id, ContentHash: hash}, err
}

func (s *Server) keys(*http.Request, struct{}) (Keys, error) {
	if s.Authority == nil {
		return Keys{}, noIdentity()
	}
	now := s.Now()
	return Keys{At: protocol.At(now.UTC()), Document: s.Authority.Keys(), Signs: s.Authority.Signer(now).KeyID()}, nil
}

func (s *Server) terminals(r *http.Request, _ struct{}) (Terminals, error) {
	keys, err := s.Register.ListTerminalKeys(r.Context())
	if err != nil {
		return Terminals{}, err
	}
	all := Terminals{At: protocol.At(s.Now().UTC()), Terminals: []Terminal{}}
	for _, k := range keys {
		all.Terminals = append(all.Terminals, Terminal{Store: k.StoreID, Terminal: k.TerminalID, KeyID: k.KeyID, Serial: k.Serial,
			IssuedAt: at(k.IssuedAt), NotAfter: at(k.NotAfter), RevokedAt: at(k.RevokedAt)})
	}
	return all, nil
}

func at(t time.Time) protocol.Time {
	if t.IsZero() {
		return protocol.Time{}
	}
	return protocol.At(t.UTC())
}

// actor is how the audit names an operator of this machine.
func actor(name string) (string, error) {
	if !protocol.ValidID(name) {
		return "", refused(protocol.CodeSchema, "/actor", "the operator's name is no id", "管理员名称无效", "write 1 to 63 of A-Z a-z 0-9 . _ -", "由 1 至 63 个 A-Z a-z 0-9 . _ - 组成")
	}
	return "host:" + name, nil
}

func checkIDs(storeID, terminalID string) error {
	for path, id := range map[string]string{"/store": storeID, "/terminal": terminalID} {
		if !protocol.ValidID(id) {
			return refused(protocol.CodeSchema, path, fmt.Sprintf("%.80q is no id", id), "编号无效", "write 1 to 63 of A-Z a-z 0-9 . _ - that start with a letter or digit", "由 1 至 63 个 A-Z a-z 0-9 . _ - 组成，并以字母或数字开头")
		}
	}
	return nil
}

func noIdentity() error {
	return refused(protocol.CodeNotAllowed, "", "headquarters has no identity, so it can enrol and revoke nobody", "总部未配置身份，无法注册或吊销终端",
		"make a folder with dispatcher init, and name its identity in identity.folder of dispatcher.yaml",
		"请用 dispatcher init 建立目录，并在 dispatcher.yaml 的 identity.folder 中填写其身份目录")
}

func refused(code protocol.Code, path, message, messageZh, hint, hintZh string) *protocol.Error {
	return &protocol.Error{Code: code, Path: path, Message: message, MessageZh: messageZh, Hint: hint, HintZh: hintZh}
}
