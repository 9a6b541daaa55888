package enrol

import (
	"errors"
	"net/http"
	"strings"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

// refusal is an answer that says no: a status of HTTP, a stable code, a
// sentence and what to do about it, both in two languages.
type refusal struct {
	status    int
	Code      protocol.Code `json:"code"`
	Message   string        `json:"message"`
	MessageZh string        `json:"messageZh"`
	Hint      string        `json:"hint"`
	HintZh    string        `json:"hintZh"`
	Path      string        `json:"path,omitempty"`
}

// Error is the sentence.
func (r *refusal) Error() string { return r.Message }

// asRefusal finds what may be said of an error; of an unknown one, nothing.
func asRefusal(err error) *refusal {
	var refused *refusal
	if errors.As(err, &refused) {
		return refused
	}
	var bad *protocol.Error
	if errors.As(err, &bad) {
		status := http.StatusBadRequest
		if bad.Code == protocol.CodeTooLarge {
			status = http.StatusRequestEntityTooLarge
		}
		hint, hintZh := bad.Hint, bad.HintZh
		if bad.Code == protocol.CodeEmptyPayload {
			hint, hintZh = "send a JSON document in the body of the request", "请在请求正文中发送 JSON 文档"
		}
		return &refusal{status, bad.Code, bad.Message, bad.MessageZh, hint, hintZh, bad.Path}
	}
	return &refusal{http.StatusInternalServerError, protocol.CodeInternal,
		"internal error; it is written to the log of headquarters", "内部错误，详情已记入总部日志",
		"ask again in a minute with the same key", "一分钟后用同一密钥重试", ""}
}

func cutShort() error {
	return &refusal{http.StatusBadRequest, protocol.CodeBadJSON, "the request ended before its body was whole", "请求内容不完整", "ask again", "请重试", ""}
}

func badRequest(err error) error {
	return &refusal{http.StatusBadRequest, protocol.CodeSchema, err.Error(), "证书请求无效：必须是由其自身密钥签名的 Ed25519 PKCS#10 请求（PEM）",
		"make an Ed25519 key and a PKCS #10 request that it signed, as PEM", "请生成 Ed25519 密钥，并提交由其签名的 PKCS#10 请求（PEM）", "/csr"}
}

// unrecorded says why the store did not record a key.
func unrecorded(err error) error {
	var other *store.OtherTerminalError
	switch {
	case errors.As(err, &other):
		return otherTerminal(other)
	case errors.Is(err, store.ErrTokenInvalid):
		return badToken(err)
	case errors.Is(err, store.ErrKeyTaken):
		return keyUsed()
	case errors.Is(err, store.ErrNotFound):
		return notEnrolled()
	}
	return err
}

// badToken passes on which of the reasons it is; before that stand ids.
func badToken(err error) error {
	_, why, _ := strings.Cut(err.Error(), store.ErrTokenInvalid.Error())
	return &refusal{http.StatusForbidden, protocol.CodeNotAllowed, store.ErrTokenInvalid.Error() + why, "令牌无效：不存在、已使用、已作废或已过期",
		"let an operator make a new one: dispatcher enroll STORE TERMINAL", "请由总部管理员重新生成：dispatcher enroll STORE TERMINAL", "/token"}
}

func otherTerminal(its *store.OtherTerminalError) error {
	return &refusal{http.StatusConflict, protocol.CodeConflict, its.Error(), "该令牌属于门店 " + its.StoreID + " 的终端 " + its.TerminalID,
		"the token is still unused: correct store and terminal at this machine and ask again, or take the token of this terminal",
		"令牌尚未使用：请在本机改正门店和终端后重试，或使用本终端的令牌", "/store"}
}

func keyUsed() error {
	return &refusal{http.StatusConflict, protocol.CodeConflict, "the key was revoked, or belongs to another terminal", "该密钥已被吊销，或属于其他终端",
		"make a new key and ask again", "请生成新密钥后重试", "/csr"}
}

func noCertificate() error {
	return &refusal{http.StatusUnauthorized, protocol.CodeNotAllowed, "a certificate is renewed by who holds one, and none was shown", "续期必须出示现有证书，但未收到证书",
		"connect with the terminal's certificate, or enrol with a token", "请用终端的证书连接，或用令牌注册", ""}
}

func notEnrolled() error {
	return &refusal{http.StatusForbidden, protocol.CodeNotAllowed, "the certificate is not of a terminal that is enrolled here", "该证书不属于已在此注册的终端",
		"enrol with a new token: dispatcher enroll STORE TERMINAL", "请用新令牌注册：dispatcher enroll STORE TERMINAL", ""}
}

func revoked() error {
	return &refusal{http.StatusForbidden, protocol.CodeNotAllowed, "the certificate was revoked", "该证书已被吊销",
		"if the terminal is to come back: a new key and a new token", "若终端要重新启用，须使用新密钥和新令牌", ""}
}

func tooFast() error {
	return &refusal{http.StatusTooManyRequests, protocol.CodeRateLimited, "too many requests from this address", "来自该地址的请求过于频繁", "wait ten seconds, then ask again", "请等待十秒后重试", ""}
}

func tooOften() error {
	return &refusal{http.StatusTooManyRequests, protocol.CodeRateLimited, "this terminal renewed its certificate too often", "该终端续期过于频繁", "wait ten minutes, then ask again", "请等待十分钟后重试", ""}
}

func tooMany() error {
	return &refusal{http.StatusServiceUnavailable, protocol.CodeRateLimited, "headquarters is busy with other enrolments", "总部正忙于处理其他注册请求", "wait ten seconds, then ask again", "请等待十秒后重试", ""}
}

func wrongMethod(*http.Request, []byte) (answer, error) {
	return answer{}, &refusal{http.StatusMethodNotAllowed, protocol.CodeNotAllowed, "only POST is taken here", "此处只接受 POST", "send the request with POST", "请用 POST 发送请求", ""}
}

func nothingHere(*http.Request, []byte) (answer, error) {
	return answer{}, &refusal{http.StatusNotFound, protocol.CodeNotFound, "there is nothing here", "此处无内容", "POST /v1/enrol or POST /v1/renew", "请用 POST /v1/enrol 或 POST /v1/renew", ""}
}
