"""An echo bot, written as python-telegram-bot's own examples are: the bare library, without any queue behind it."""

import sys

from telegram import Update
from telegram.ext import Application, ContextTypes, MessageHandler, filters


async def echo(update: Update, _: ContextTypes.DEFAULT_TYPE) -> None:
    if update.message is not None and update.message.text is not None:
        await update.message.reply_text(update.message.text)


def main() -> None:
    token, address = sys.argv[1:]
    builder = Application.builder().token(token).base_url(f"{address}/bot").base_file_url(f"{address}/file/bot")
    application = builder.build()
    application.add_handler(MessageHandler(filters.TEXT, echo))
    application.run_polling()


if __name__ == "__main__":
    main()
